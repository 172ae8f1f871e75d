import unittest
from collections import Counter

import grpc
from grpc_status import rpc_status

from choice import rate
from scorer import Scorer, Server, pb, rpc


class Choice(unittest.TestCase):
    def test_the_shorter_queue_of_two_wins(self):
        for i in range(50):
            queues = {f"e{n}": n for n in range(8)}
            scores = rate(f"r{i}", queues)
            drawn = sorted((e for e in scores if scores[e]), key=queues.get)
            self.assertEqual([scores[e] for e in drawn], [1, 0.5])

    def test_order_and_repetition_do_not_matter(self):
        queues = {f"e{n}": n % 3 for n in range(8)}
        self.assertEqual(rate("r", queues), rate("r", dict(reversed(queues.items()))))

    def test_every_endpoint_is_drawn_by_some_request(self):
        won = Counter()
        for i in range(4000):
            scores = rate(f"r{i}", {f"e{n}": 0 for n in range(8)})
            won[max(scores, key=scores.get)] += 1
        self.assertEqual(len(won), 8)
        self.assertLess(max(won.values()), 2 * min(won.values()))

    def test_unknown_is_neither_idle_nor_full(self):
        self.assertEqual(rate("r", {"a": None, "b": 7}), {"a": None, "b": 1})
        self.assertEqual(rate("r", {"a": None}), {"a": None})


class Contract(unittest.TestCase):
    def setUp(self):
        self.server = Server(Scorer("two-choices", "two-choices-scorer"), "127.0.0.1:0")
        self.addCleanup(self.server.stop)
        channel = grpc.insecure_channel(self.server.address)
        self.addCleanup(channel.close)
        self.client = rpc.ScorerServiceStub(channel)

    def request(self, queues, **fields):
        listed = pb.CandidateList()
        for e, waiting in queues.items():
            c = listed.candidates.add(endpoint_id=e)
            if waiting is not None:
                c.load.waiting_request_count = waiting
        return pb.ScoreRequest(**{"scorer_type": "two-choices-scorer", "request": {"request_id": "r"}, "listed": listed} | fields)

    def test_scores_come_over_the_wire(self):
        got = self.client.Score(self.request({"a": 3, "b": 1, "c": None}, explain=True))
        self.assertEqual(list(got.scores), [0.5, 1, 0])
        self.assertEqual(list(got.abstained_indices), [2])
        self.assertEqual([e.text for e in got.explanations], ["3 waiting, drawn", "1 waiting, drawn", "its queue is not known"])

    def test_parameters_are_refused_by_key(self):
        got = self.client.ValidateParameters(pb.ValidateParametersRequest(scorer_type="two-choices-scorer", parameters_json=b'{"k":1}'))
        self.assertEqual([f.key for f in got.faults], ["k"])

    def test_what_breaks_the_contract_is_refused_with_the_reason(self):
        for bad in ({"scorer_type": "x"}, {"request": None}, {"listed": pb.CandidateList()}, {"parameters_json": b"[]"}):
            with self.assertRaises(grpc.RpcError) as caught:
                self.client.Score(self.request({"a": 1}, **bad))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(b"INVALID_REQUEST", rpc_status.from_call(caught.exception).details[0].value)


if __name__ == "__main__":
    unittest.main()
