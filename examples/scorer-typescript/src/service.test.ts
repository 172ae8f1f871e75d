import assert from "node:assert/strict";
import { test } from "node:test";
import * as grpc from "@grpc/grpc-js";
import { service } from "./contract.js";
import { type } from "./score.js";
import { serve } from "./server.js";
import { answer, implement } from "./service.js";

type Answer = { scores: number[]; abstainedOnAll: boolean; faults: { key: string; message: string }[] };

async function asked(method: string, message: object): Promise<Answer> {
  const running = await serve("127.0.0.1:0", implement(type, "zone"));
  const Client = grpc.makeGenericClientConstructor(service, "ScorerService");
  const client = new Client(running.address, grpc.credentials.createInsecure());
  try {
    return await new Promise((resolve, reject) => {
      client[method]!(message, (error: Error | null, value: Answer) => (error ? reject(error) : resolve(value)));
    });
  } finally {
    client.close();
    await running.stop();
  }
}

const request = { requestId: "r", headers: [{ name: "x-zone", value: "b" }] };
const candidates = ["a", "b"].map((zone) => ({ endpointId: zone, labels: [{ name: "zone", value: zone }] }));

test("scores come over the wire", async () => {
  const got = await asked("score", { scorerType: "zone-scorer", request, listed: { candidates } });
  assert.deepEqual(got.scores, [0, 1]);
});

test("a misspelt parameter is a fault", async () => {
  const got = await asked("validateParameters", { scorerType: "zone-scorer", parametersJson: Buffer.from('{"lable":"x"}') });
  assert.equal(got.faults[0]?.key, "lable");
});

test("requests that break the contract are refused, with the reason", async () => {
  const good = { scorerType: "zone-scorer", request, listed: { candidates } };
  for (const bad of [{ scorerType: "other" }, { request: null }, { listed: { candidates: [] } }, { parametersJson: Buffer.from("[]") }]) {
    await assert.rejects(asked("score", { ...good, ...bad }), (e: grpc.ServiceError) => {
      const details = e.metadata.get("grpc-status-details-bin")[0];
      return e.code === grpc.status.INVALID_ARGUMENT && String(details).includes("INVALID_REQUEST");
    });
  }
});

test("no opinion at all is an abstention", () => {
  assert.deepEqual(answer([{}, {}], false), { abstainedOnAll: true, abstainReason: "ABSTAIN_REASON_NOT_APPLICABLE", explanations: [] });
});
