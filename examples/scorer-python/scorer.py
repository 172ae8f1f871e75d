"""The scorer contract around choice.py: GetScorerInfo, ValidateParameters, Score and health."""

import argparse
import json
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_status import rpc_status

sys.path.append(str(Path(__file__).parent / "gen"))

from pointsman.scorer.v1 import scorer_pb2 as pb  # noqa: E402
from pointsman.scorer.v1 import scorer_pb2_grpc as rpc  # noqa: E402

from choice import rate  # noqa: E402

VERSION = "1.0.0"
SERVICE = pb.DESCRIPTOR.services_by_name["ScorerService"].full_name
MAX_CANDIDATES, MAX_ID_BYTES = 4096, 128
NEEDS = pb.InputNeeds(required_inputs=[pb.INPUT_LOAD])


class Scorer(rpc.ScorerServiceServicer):
    """Serves one scorer type, which takes no parameters."""

    def __init__(self, name: str, scorer_type: str):
        self.name, self.type = name, scorer_type

    def GetScorerInfo(self, request, context):
        return pb.GetScorerInfoResponse(
            name=self.name,
            version=VERSION,
            capabilities=[pb.CAPABILITY_EXPLAIN],
            types=[
                pb.ScorerType(
                    name=self.type,
                    description="High for the shorter queue of two endpoints that are drawn for the request.",
                    default_needs=NEEDS,
                )
            ],
        )

    def ValidateParameters(self, request, context):
        self.check_type(request.scorer_type, context)
        faults = parameter_faults(request.parameters_json)
        if faults:
            return pb.ValidateParametersResponse(faults=faults)
        return pb.ValidateParametersResponse(needs=NEEDS, effective_parameters_json=b"{}")

    def Score(self, request, context):
        self.check_type(request.scorer_type, context)
        check(request, context)
        candidates = request.listed.candidates
        queues = {c.endpoint_id: queue(c) for c in candidates}
        scores = rate(request.request.request_id, queues)
        response = pb.ScoreResponse()
        for i, c in enumerate(candidates):
            score = scores[c.endpoint_id]
            response.scores.append(score or 0.0)
            if score is None:
                response.abstained_indices.append(i)
            if request.explain:
                text = "its queue is not known" if score is None else f"{queues[c.endpoint_id]} waiting, {'drawn' if score else 'not drawn'}"
                response.explanations.add(candidate_index=i, text=text)
        if response.abstained_indices:
            response.abstain_reason = pb.ABSTAIN_REASON_UNKNOWN_ENDPOINT
        return response

    def check_type(self, scorer_type, context):
        if scorer_type != self.type:
            refuse(context, f"scorer_type: {scorer_type[:80]!r} is not served here, but {self.type}")


def queue(candidate) -> int | None:
    """Requests that wait, those that were picked since the figures were read included; None if not known."""
    load = candidate.load
    if not candidate.HasField("load") or not load.HasField("waiting_request_count"):
        return None
    return load.waiting_request_count + load.credited_request_count


def parameter_faults(parameters: bytes):
    if not parameters.strip():
        return []
    try:
        value = json.loads(parameters)
    except ValueError as e:
        return [pb.ParameterFault(message=f"this is not valid JSON: {e}")]
    if not isinstance(value, dict):
        return [pb.ParameterFault(message="a JSON object is wanted")]
    return [pb.ParameterFault(key=key, message="there is no such parameter; it takes none") for key in value]


def check(request, context):
    """Refuses requests that break the contract."""
    n, request_id = len(request.listed.candidates), request.request.request_id.encode()
    faults = parameter_faults(request.parameters_json)
    if not 1 <= len(request_id) <= MAX_ID_BYTES:
        refuse(context, f"request.request_id: {len(request_id)} bytes, want 1 to {MAX_ID_BYTES}")
    if not 1 <= n <= MAX_CANDIDATES:
        refuse(context, f"listed.candidates: {n}, want 1 to {MAX_CANDIDATES}; table references are not taken")
    if not all(c.endpoint_id for c in request.listed.candidates):
        refuse(context, "listed.candidates: one has no endpoint_id")
    if faults:
        refuse(context, "; ".join(f"{f.key}: {f.message}" for f in faults))


def refuse(context, message: str):
    """Ends the call with the contract's INVALID_ARGUMENT, with its reason."""
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason="INVALID_REQUEST", domain="scorer.pointsman.dev"))
    context.abort_with_status(rpc_status.to_status(status_pb2.Status(code=code_pb2.INVALID_ARGUMENT, message=message, details=[info])))


class Server:
    """A gRPC server with the contract and health, which ends without losing a call."""

    def __init__(self, scorer: Scorer, address: str):
        self.server = grpc.server(ThreadPoolExecutor(max_workers=16))
        self.health = health.HealthServicer(experimental_non_blocking=True)
        rpc.add_ScorerServiceServicer_to_server(scorer, self.server)
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self.server)
        port = self.server.add_insecure_port(address)
        self.address = address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"
        self.health.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
        self.server.start()

    def stop(self):
        self.health.enter_graceful_shutdown()  # routers go elsewhere now,
        self.server.stop(grace=1).wait()  # and what is open is answered


def main():
    flags = argparse.ArgumentParser(description="Scores endpoints by two choices on their queues.")
    flags.add_argument("--listen", default="127.0.0.1:9201", help="HOST:PORT or unix:///PATH")
    flags.add_argument("--name", default="two-choices", help="of the service, in metrics")
    flags.add_argument("--type", default="two-choices-scorer", help="under which configurations name it")
    given = flags.parse_args()
    server = Server(Scorer(given.name, given.type), given.listen)
    print(f"{given.name}: grpc listening on {server.address}", flush=True)
    done = threading.Event()
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, lambda *_: done.set())
    done.wait()
    server.stop()


if __name__ == "__main__":
    main()
