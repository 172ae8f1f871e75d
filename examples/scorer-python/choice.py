"""The idea of this scorer: of two endpoints drawn for each request, the less loaded one.

Whoever always picks the endpoint with the shortest queue sends a whole burst there before the queue shows it.
Two choices spread a burst nearly as well as looking at everybody would, from figures that may be old (Mitzenmacher,
"The Power of Two Choices in Randomized Load Balancing", 1996).
"""

import hashlib


def lot(request_id: str, endpoint_id: str) -> bytes:
    """The lot that a request draws for an endpoint: the same in every replica and whatever the order."""
    return hashlib.blake2b(f"{len(request_id)}:{request_id}{endpoint_id}".encode(), digest_size=8).digest()


def rate(request_id: str, queues: dict[str, int | None]) -> dict[str, float | None]:
    """Scores endpoints by their queues. None, as a queue, is not known, and as a score, no opinion.

    The shorter queue of the two that are drawn gets 1, the other 0.5, all others 0.
    """
    known = [e for e, queue in queues.items() if queue is not None]
    drawn = sorted(known, key=lambda e: lot(request_id, e))[:2]
    drawn.sort(key=lambda e: queues[e])  # stable: of equals the first one drawn
    scores: dict[str, float | None] = {e: None if queue is None else 0.0 for e, queue in queues.items()}
    for endpoint, score in zip(drawn, (1.0, 0.5)):
        scores[endpoint] = score
    return scores
