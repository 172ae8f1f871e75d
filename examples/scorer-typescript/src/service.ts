// The scorer contract around one ScorerType: GetScorerInfo, ValidateParameters, Score.
import * as grpc from "@grpc/grpc-js";
import { Fault, invalid, limits, Needs, Opinion, ScoreRequest, ScorerType, version } from "./contract.js";

interface Parsed<P> {
  parameters?: P;
  faults: { key: string; message: string }[];
}

type Call<Q> = grpc.ServerUnaryCall<Q, object>;
type Reply = grpc.sendUnaryData<object>;

// implement returns the handlers of the contract.
export function implement<P>(type: ScorerType<P>, service: string): grpc.UntypedServiceImplementation {
  // Parameters come with every call; they are parsed once for the same bytes.
  const cache = new Map<string, Parsed<P>>();

  function parse(json: Buffer): Parsed<P> {
    const text = json.toString("utf8").trim();
    let parsed = cache.get(text);
    if (parsed === undefined) {
      parsed = parseOnce(text);
      if (cache.size >= 256) cache.clear();
      cache.set(text, parsed);
    }
    return parsed;
  }

  function parseOnce(text: string): Parsed<P> {
    try {
      const value: unknown = text === "" ? {} : JSON.parse(text);
      if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Fault("", "a JSON object is wanted");
      return { parameters: type.parse(value as Record<string, unknown>), faults: [] };
    } catch (e) {
      const fault = e instanceof Fault ? e : new Fault("", `this is not valid JSON: ${e}`);
      return { faults: [{ key: fault.key, message: fault.message }] };
    }
  }

  return {
    getScorerInfo(_: Call<object>, reply: Reply) {
      reply(null, {
        name: service,
        version,
        capabilities: ["CAPABILITY_EXPLAIN"],
        types: [
          {
            name: type.name,
            description: type.description,
            parametersSchema: JSON.stringify(type.schema),
            defaultNeeds: needs(type, parse(Buffer.alloc(0)).parameters),
          },
        ],
      });
    },

    validateParameters(call: Call<{ scorerType: string; parametersJson: Buffer }>, reply: Reply) {
      const unknown = unserved(type.name, call.request.scorerType);
      if (unknown !== undefined) return reply(invalid(unknown));
      const { parameters, faults } = parse(call.request.parametersJson);
      if (faults.length > 0) return reply(null, { faults });
      reply(null, { needs: needs(type, parameters), effectiveParametersJson: Buffer.from(JSON.stringify(parameters)) });
    },

    score(call: Call<ScoreRequest>, reply: Reply) {
      const { request, listed, parametersJson, explain, scorerType } = call.request;
      const candidates = listed?.candidates ?? [];
      const wrong = unserved(type.name, scorerType) ?? broken(call.request);
      if (wrong !== undefined || request === null) return reply(invalid(wrong ?? "request: missing"));
      const { parameters, faults } = parse(parametersJson);
      if (parameters === undefined) return reply(invalid(faults.map((f) => `${f.key}: ${f.message}`).join("; ")));
      reply(null, answer(type.score(parameters, request, candidates), explain));
    },
  };
}

function needs<P>(type: ScorerType<P>, parameters: P | undefined): Needs | null {
  return parameters === undefined ? null : type.needs(parameters);
}

function unserved(served: string, asked: string): string | undefined {
  return asked === served ? undefined : `scorer_type: ${JSON.stringify(asked.slice(0, 80))} is not served here, but ${served}`;
}

// broken finds the first rule that a request breaks.
function broken({ request, listed }: ScoreRequest): string | undefined {
  const id = Buffer.byteLength(request?.requestId ?? "");
  const candidates = listed?.candidates ?? [];
  if (id === 0 || id > limits.idBytes) return `request.request_id: ${id} bytes, want 1 to ${limits.idBytes}`;
  if (candidates.length === 0 || candidates.length > limits.candidates) {
    return `listed.candidates: ${candidates.length}, want 1 to ${limits.candidates}; table references are not taken`;
  }
  const nameless = candidates.findIndex((c) => c.endpointId === "");
  return nameless < 0 ? undefined : `listed.candidates[${nameless}].endpoint_id: missing`;
}

// answer turns opinions into a ScoreResponse.
export function answer(opinions: Opinion[], explain: boolean): object {
  const scores = opinions.map((o) => o.score ?? 0);
  const abstainedIndices = opinions.flatMap((o, i) => (o.score === undefined ? [i] : []));
  const explanations = opinions.flatMap((o, i) => (explain && o.text ? [{ candidateIndex: i, text: o.text }] : []));
  if (abstainedIndices.length === opinions.length) {
    return { abstainedOnAll: true, abstainReason: "ABSTAIN_REASON_NOT_APPLICABLE", explanations };
  }
  const abstainReason = abstainedIndices.length > 0 ? "ABSTAIN_REASON_UNKNOWN_ENDPOINT" : "ABSTAIN_REASON_UNSPECIFIED";
  return { scores, abstainedIndices, abstainReason, explanations };
}
