import assert from "node:assert/strict";
import { test } from "node:test";
import { Candidate, Fault, InferenceRequest } from "./contract.js";
import { type } from "./score.js";

const candidate = (zone?: string): Candidate => ({ endpointId: "e", load: null, labels: zone === undefined ? [] : [{ name: "zone", value: zone }] });
const request = (zone?: string): InferenceRequest => ({
  requestId: "r",
  model: "m",
  adapter: "",
  headers: zone === undefined ? [] : [{ name: "x-zone", value: zone }],
});

test("endpoints of the client's zone are preferred", () => {
  const opinions = type.score(type.parse({}), request("b"), [candidate("a"), candidate("b"), candidate()]);
  assert.deepEqual(opinions.map((o) => o.score), [0, 1, undefined]);
});

test("without the header there is no opinion", () => {
  assert.deepEqual(type.score(type.parse({}), request(), [candidate("a")]), [{}]);
});

test("label and header can be chosen", () => {
  const p = type.parse({ label: "rack", header: "X-Rack" });
  assert.deepEqual(type.needs(p).headerNames, ["x-rack"]);
  assert.equal(p.label, "rack");
});

test("wrong parameters are refused by their key", () => {
  for (const [key, parameters] of [["lable", { lable: "x" }], ["header", { header: 1 }]] as const) {
    assert.throws(() => type.parse(parameters), (e) => e instanceof Fault && e.key === key);
  }
});
