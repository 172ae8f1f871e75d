// What a scorer sees of pointsman.scorer.v1, in types; the rules are in the contract's page.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as grpc from "@grpc/grpc-js";
import * as loader from "@grpc/proto-loader";

export interface Label {
  name: string;
  value: string;
}

export interface Load {
  // Absent figures are unknown, which is neither idle nor full.
  waitingRequestCount?: number;
  runningRequestCount?: number;
  kvCacheUsageRatio?: number;
  creditedRequestCount: number;
  creditedTokenCount: number;
}

export interface Candidate {
  endpointId: string;
  load: Load | null;
  labels: Label[];
}

export interface InferenceRequest {
  requestId: string;
  model: string;
  adapter: string;
  promptTokenCount?: number;
  headers: { name: string; value: string }[];
}

export interface ScoreRequest {
  scorerType: string;
  parametersJson: Buffer;
  request: InferenceRequest | null;
  listed?: { candidates: Candidate[] } | null;
  explain: boolean;
}

export interface Needs {
  requiredInputs: ("INPUT_LOAD" | "INPUT_LABELS" | "INPUT_REQUEST_HEADERS")[];
  headerNames?: string[];
}

// Opinion is what a scorer thinks of one candidate; without a score it has none.
export interface Opinion {
  score?: number; // 0 (avoid) to 1 (prefer)
  text?: string; // why, in one line without user data
}

// Fault is one thing wrong with parameters.
export class Fault extends Error {
  constructor(readonly key: string, message: string) {
    super(message);
  }
}

// ScorerType is one way to score. P is its parameters, with nothing left out.
export interface ScorerType<P> {
  name: string;
  description: string;
  schema: object;
  // needs says what it must be given.
  needs(parameters: P): Needs;
  // parse reads a JSON object; it throws a Fault if it does not like it.
  parse(parameters: Record<string, unknown>): P;
  // score has an opinion on every candidate, in their order.
  score(parameters: P, request: InferenceRequest, candidates: Candidate[]): Opinion[];
}

export const limits = { candidates: 4096, idBytes: 128 };

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const definition = loader.loadSync("pointsman/scorer/v1/scorer.proto", {
  includeDirs: [join(root, "proto")],
  longs: String,
  enums: String,
  defaults: true,
});

export const serviceName = "pointsman.scorer.v1.ScorerService";
export const service = definition[serviceName] as grpc.ServiceDefinition;
export const version: string = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version;

// invalid is the contract's INVALID_ARGUMENT, with its reason.
export function invalid(message: string): Partial<grpc.StatusObject> {
  const metadata = new grpc.Metadata();
  metadata.set("grpc-status-details-bin", details(grpc.status.INVALID_ARGUMENT, message, "INVALID_REQUEST"));
  return { code: grpc.status.INVALID_ARGUMENT, details: message, metadata };
}

// details is a google.rpc.Status with a google.rpc.ErrorInfo, of which there is no library for Node.
function details(code: number, message: string, reason: string): Buffer {
  const info = Buffer.concat([field(1, Buffer.from(reason)), field(2, Buffer.from("scorer.pointsman.dev"))]);
  const any = Buffer.concat([field(1, Buffer.from("type.googleapis.com/google.rpc.ErrorInfo")), field(2, info)]);
  return Buffer.concat([Buffer.from([1 << 3, code]), field(2, Buffer.from(message)), field(3, any)]);
}

// field is a protobuf field of bytes.
function field(number: number, value: Buffer): Buffer {
  const head = [(number << 3) | 2];
  let length = value.length;
  for (; length >= 0x80; length >>>= 7) head.push((length & 0x7f) | 0x80);
  head.push(length);
  return Buffer.concat([Buffer.from(head), value]);
}
