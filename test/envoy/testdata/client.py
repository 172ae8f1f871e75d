"""Talks to a chat API with the official client: client.py BASE_URL. Prints what came, as JSON."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0, timeout=60)
question = [{"role": "user", "content": "Why do railways need points?"}]
out = {}

whole = client.chat.completions.with_raw_response.create(model="sim-model", messages=question, max_tokens=20)
answer = whole.parse()
out["text"] = answer.choices[0].message.content
out["finish"] = answer.choices[0].finish_reason
out["tokens"] = answer.usage.completion_tokens
out["server"] = whole.headers["x-test-server"]

pieces, usage = [], None
for chunk in client.chat.completions.create(
    model="sim-model", messages=question, max_tokens=20, stream=True, stream_options={"include_usage": True}
):
    if chunk.choices and chunk.choices[0].delta.content:
        pieces.append(chunk.choices[0].delta.content)
    usage = chunk.usage or usage
out["streamed"] = "".join(pieces)
out["pieces"] = len(pieces)
out["streamed_tokens"] = usage.completion_tokens

with client.chat.completions.create(model="sim-model", messages=question, max_tokens=200, stream=True) as stream:
    next(iter(stream))  # and leave

out["completion"] = client.completions.create(model="sim-model", prompt="Points are", max_tokens=5).choices[0].text
out["embedding"] = len(client.embeddings.create(model="sim-model", input=["a", "b"]).data)
out["models"] = [m.id for m in client.models.list()]

try:
    client.chat.completions.create(model="", messages=question)
except openai.BadRequestError as e:
    out["error"] = {"code": e.code, "param": e.param, "reason": e.response.headers.get("x-pointsman-reason")}

json.dump(out, sys.stdout)
