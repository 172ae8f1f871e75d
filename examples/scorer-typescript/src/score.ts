// The idea of this scorer: a request should stay in the zone it comes from.
import { Candidate, Fault, InferenceRequest, Opinion, ScorerType } from "./contract.js";

interface Parameters {
  label: string; // of endpoints, with their zone
  header: string; // of requests, with the client's zone
}

export const type: ScorerType<Parameters> = {
  name: "zone-scorer",
  description: "High for endpoints in the zone that a request header names.",
  schema: {
    type: "object",
    additionalProperties: false,
    properties: {
      label: { type: "string", default: "zone", description: "Label with an endpoint's zone." },
      header: { type: "string", default: "x-zone", description: "Request header with the client's zone." },
    },
  },

  needs: (p) => ({ requiredInputs: ["INPUT_LABELS", "INPUT_REQUEST_HEADERS"], headerNames: [p.header] }),

  parse(parameters) {
    const p: Parameters = { label: "zone", header: "x-zone" };
    for (const [key, value] of Object.entries(parameters)) {
      if (key !== "label" && key !== "header") throw new Fault(key, "there is no such parameter; there are label and header");
      if (typeof value !== "string" || value === "") throw new Fault(key, "it must be a text that is not empty");
      p[key] = key === "header" ? value.toLowerCase() : value;
    }
    return p;
  },

  score(p: Parameters, request: InferenceRequest, candidates: Candidate[]): Opinion[] {
    const wanted = request.headers.find((h) => h.name === p.header)?.value;
    return candidates.map((c) => {
      const zone = c.labels.find((l) => l.name === p.label)?.value;
      if (wanted === undefined || zone === undefined) return {}; // no opinion
      return zone === wanted ? { score: 1, text: `in ${zone}, where the client is` } : { score: 0, text: `in ${zone}, elsewhere` };
    });
  },
};
