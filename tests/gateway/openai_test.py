#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The official client through the gateway, and directly: it sees the same.

openai_test.py SNAFFLE SCRIPTED_MODEL TRACE_OF. Speaks TAP.
"""
import asyncio
import gzip
import json
import pathlib
import sys
import tempfile
import threading
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "doubles")]
import tap  # noqa: E402
from servers import Gateway, ScriptedModel, await_true  # noqa: E402

tap.need("openai")
import openai  # noqa: E402

SNAFFLE, MODEL, TRACE_OF = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:])
KEY = "sk-real-key-of-the-engine"
CALL = {"name": "write", "arguments": {"path": "a.txt", "content": "h\u00e9llo \U0001f600\u2028\n"}}
TOOLS = [{"type": "function", "function": {"name": "write", "parameters": {"type": "object"}}}]
USAGE = {"include_usage": True}
ENGINE_S_OWN = ("id", "created")  # Differ between any two answers.
ERRORS = {
    400: {"body": {"error": {"message": "this model's maximum context length is 10 tokens",
                             "type": "BadRequestError", "param": "input", "code": 400}}},
    401: {"body": {"error": {"message": "no such key", "type": "auth", "code": "invalid"}}},
    404: {"body": {"object": "error", "message": "flat, as older engines do", "code": 404}},
    422: {"body": {"detail": [{"loc": ["body"], "msg": "not nested at all"}]}},
    429: {"headers": {"retry-after": "17", "x-ratelimit-remaining-requests": "0"},
          "body": {"error": {"message": "slow down", "type": "rate", "code": None}}},
    500: {"headers": {"content-type": "text/html", "x-request-id": "r-1"},
          "body": "<html><b>Internal Server Error</b></html>"},
}
SCRIPT = {
    "api_key": KEY,
    "scenes": [
        *[{"when": {"user_has": f"error {status}."},
           "fault": {"kind": "status", "status": status, **more}}
          for status, more in ERRORS.items()],
        {"when": {"user_has": "busy"}, "times": 2, "fault": {
            "kind": "status", "status": 503, "headers": {"retry-after": "0"}}},
        {"when": {"user_has": "long"}, "reply": {"words": 4000}, "event_delay_ms": 2},
        {"when": {"user_has": "break"}, "fault": {"kind": "error_event", "after_events": 3}},
        {"when": {"user_has": "reset"}, "fault": {"kind": "reset", "after_events": 3}},
        {"when": {"user_has": "pieces"}, "reply": {"text": "\u00e9\U0001f600"},
         "wire": {"split": 1, "crlf": True, "pings": True}},
        {"when": {"call": 1, "tools": True}, "reply": {
            "reasoning": "Let me see.", "text": "I write it.", "tool_calls": [CALL, CALL]}},
        {"reply": {"text": "Done, \u00e9\U0001f600."}}]}


def user(text):
    return [{"role": "user", "content": text}]


def plain(answer):
    """All that the client's object holds, unknown fields too, without the engine's own numbers."""
    held = answer.model_dump()
    for name in ENGINE_S_OWN:
        held.pop(name, None)
    for choice in held["choices"]:
        said = choice.get("message") or choice.get("delta") or {}
        for call in said.get("tool_calls") or []:
            if call.get("id"):
                call["id"] = "call"  # Of the answer's number as well.
    return held


def setUpModule():
    global scratch, model, gateway
    scratch = tempfile.TemporaryDirectory(prefix="snaffle-openai-")
    folder = pathlib.Path(scratch.name)
    model = ScriptedModel(MODEL, SCRIPT, folder / "model")
    gateway = Gateway(SNAFFLE, model.url, folder / "gateway", key=KEY, trace_of=TRACE_OF)


def tearDownModule():
    gateway.stop()
    model.stop()
    scratch.cleanup()


class Case(unittest.TestCase):
    def setUp(self):
        self.direct = openai.OpenAI(base_url=model.url, api_key=KEY, max_retries=0)
        self.through = openai.OpenAI(base_url=gateway.url, api_key="the-rollout-s", max_retries=0)
        self.addCleanup(self.direct.close)
        self.addCleanup(self.through.close)

    def recorded(self, marker, calls=1):
        """The trace's lines of the calls whose body holds the marker, once all have ended."""
        def there():
            self.lines = [t for t in gateway.trace() if marker in json.dumps(t["request"])]
            return len(self.lines) == calls
        await_true(there, f"{calls} recorded calls of '{marker}'")
        return self.lines


def create(client, text, **more):
    return client.chat.completions.create(model="scripted", messages=user(text), **more)


class Answers(Case):
    def both(self, text, **more):
        """The same call, both ways: equal objects, and one whole recorded call."""
        want = create(self.direct, text, **more)
        got = create(self.through, text, **more)
        if more.get("stream"):
            want, got = [plain(c) for c in want], [plain(c) for c in got]
        else:
            want, got = plain(want), plain(got)
        self.assertEqual(got, want)
        line, = self.recorded(text)
        self.assertEqual(line["end"], "complete")
        ids = line["completion_token_ids"]
        self.assertEqual(len(ids), line["usage"]["completion_tokens"])
        self.assertEqual(len(line["per_token_logps"]), len(ids))
        self.assertEqual(len(line["prompt_token_ids"]), line["usage"]["prompt_tokens"])
        return got, line

    def test_a_unary_answer(self):
        got, line = self.both("unary plain")
        self.assertEqual(got["choices"][0]["message"]["content"], "Done, \u00e9\U0001f600.")
        self.assertIsNone(got["choices"][0]["logprobs"])

    def test_a_unary_answer_with_tools(self):
        got, line = self.both("unary tools", tools=TOOLS)
        self.assertEqual(len(got["choices"][0]["message"]["tool_calls"]), 2)
        self.assertEqual(line["finish_reason"], "tool_calls")

    def test_a_stream(self):
        got, _ = self.both("stream plain", stream=True)
        self.assertTrue(all(c["choices"] for c in got), "the usage chunk is the gateway's own")

    def test_a_stream_with_usage(self):
        got, _ = self.both("stream usage", stream=True, stream_options=USAGE)
        self.assertEqual(got[-1]["choices"], [])

    def test_a_stream_with_tools(self):
        self.both("stream tools", stream=True, tools=TOOLS, stream_options=USAGE)

    def test_a_stream_in_pieces_of_one_byte(self):
        self.both("stream pieces", stream=True, stream_options=USAGE)

    def test_log_probabilities_that_the_client_asked_for(self):
        for top in (0, 2, 5, 7):
            for stream in (False, True):
                with self.subTest(top=top, stream=stream):
                    self.both(f"asked {top} {stream}.", stream=stream, logprobs=True,
                              top_logprobs=top)

    def test_log_probabilities_that_the_client_did_not_want(self):
        self.both("not wanted", logprobs=False)

    def test_ids_that_the_client_asked_for(self):
        for stream in (False, True):
            with self.subTest(stream=stream):
                got, _ = self.both(f"ids asked {stream}.", stream=stream,
                                   extra_body={"return_token_ids": True})
                first = got[0] if stream else got
                self.assertTrue(first["prompt_token_ids"])

    def test_several_choices(self):
        for stream in (False, True):
            want = create(self.direct, f"several {stream}.", n=2, stream=stream)
            got = create(self.through, f"several {stream}.", n=2, stream=stream)
            if stream:
                self.assertEqual([plain(c) for c in got], [plain(c) for c in want])
            else:
                self.assertEqual(plain(got), plain(want))
            line, = self.recorded(f"several {stream}.")
            self.assertEqual(line["end"], "complete")
            self.assertEqual(len(line["response"]["choices"]), 2)

    def test_the_client_s_own_stream_helper(self):
        def run(client):
            with client.chat.completions.stream(model="scripted",
                                                messages=user("helper")) as stream:
                kinds = [event.type for event in stream]
                return kinds, plain(stream.get_final_completion())
        self.assertEqual(run(self.through), run(self.direct))
        self.recorded("helper")

    def test_models(self):
        want, got = self.direct.models.list(), self.through.models.list()
        self.assertEqual([m.model_dump() for m in got], [m.model_dump() for m in want])


    def test_the_turns_of_a_conversation_go_on_in_ids_where_the_one_before_ended(self):
        """The engine promises it of a history that repeats its answers; so the record must show it."""
        for stream in (False, True):
            messages = user(f"prefix {'streamed' if stream else 'whole'}")
            for _ in range(3):
                if stream:
                    with self.through.chat.completions.stream(
                            model="scripted", messages=messages, tools=TOOLS) as s:
                        said = s.get_final_completion().choices[0].message
                else:
                    said = self.through.chat.completions.create(
                        model="scripted", messages=messages, tools=TOOLS).choices[0].message
                kept = said.model_dump(exclude_none=True, exclude={"parsed"})
                for call in kept.get("tool_calls") or []:
                    call["function"].pop("parsed_arguments", None)
                messages = [*messages, kept, *(
                    {"role": "tool", "tool_call_id": c.id, "content": "written"}
                    for c in said.tool_calls or [])]
                if not said.tool_calls:
                    messages += user("and then?")
            lines = self.recorded(messages[0]["content"], 3)
            for before, after in zip(lines, lines[1:]):
                whole = before["prompt_token_ids"] + before["completion_token_ids"]
                self.assertGreater(len(after["prompt_token_ids"]), len(whole))
                self.assertEqual(after["prompt_token_ids"][:len(whole)], whole)
                self.assertEqual(len(before["completion_token_ids"]),
                                 before["usage"]["completion_tokens"])


class Errors(Case):
    def error_of(self, client, text):
        with self.assertRaises(openai.APIStatusError) as caught:
            create(client, text)
        e = caught.exception
        return type(e), e.status_code, e.message, e.body, e.response.content, {
            n: e.response.headers.get(n) for n in
            ("retry-after", "x-ratelimit-remaining-requests", "x-request-id", "content-type")}

    def test_every_refusal_arrives_as_it_is(self):
        for status in ERRORS:
            with self.subTest(status=status):
                text = f"error {status}."
                self.assertEqual(self.error_of(self.through, text),
                                 self.error_of(self.direct, text))
                line, = self.recorded(text)
                self.assertEqual((line["end"], line["status"]), ("error", status))

    def test_a_busy_engine_is_asked_again_by_the_client_alone(self):
        got = create(self.through.with_options(max_retries=2), "busy")
        self.assertEqual(got.choices[0].finish_reason, "stop")
        lines = self.recorded("busy", 3)
        self.assertEqual([t["status"] for t in lines], [503, 503, 200])

    def test_an_error_in_the_stream_is_the_client_s_error(self):
        def run(client):
            with self.assertRaises(openai.APIError) as caught:
                list(create(client, "break", stream=True))
            return caught.exception.message, caught.exception.body
        self.assertEqual(run(self.through), run(self.direct))
        line, = self.recorded("break")
        self.assertIn("upstream_error_event", line["findings"])

    def test_a_broken_stream_never_looks_whole(self):
        text = []
        with self.assertRaises(openai.APIError):
            for chunk in create(self.through, "reset", stream=True):
                text += [c.finish_reason for c in chunk.choices]
        self.assertEqual(set(text), {None})
        line, = self.recorded("reset")
        self.assertEqual(line["end"], "upstream_abort")

    def test_a_model_that_is_unknown(self):
        for client in (self.direct, self.through):
            with self.assertRaises(openai.NotFoundError):
                client.chat.completions.create(model="other", messages=user("unknown model"))


class Wire(Case):
    def test_the_head_is_the_engine_s(self):
        def run(client):
            raw = client.chat.completions.with_raw_response.create(
                model="scripted", messages=user("raw head"))
            head = {n.lower(): v for n, v in raw.headers.items()}
            for name in ("content-length", "date", "connection", "keep-alive",
                         "transfer-encoding"):  # Framing is everybody's own.
                head.pop(name, None)
            return raw.status_code, head, plain(raw.parse())
        self.assertEqual(run(self.through), run(self.direct))

    def test_a_compressed_request(self):
        body = gzip.compress(json.dumps({"model": "scripted",
                                         "messages": user("compressed")}).encode())
        got = self.through.post("/chat/completions", cast_to=object, content=body, options={
            "headers": {"content-encoding": "gzip", "content-type": "application/json"}})
        self.assertEqual(got["choices"][0]["message"]["content"], "Done, \u00e9\U0001f600.")
        line, = self.recorded("compressed")
        self.assertTrue(line["completion_token_ids"])

    def test_a_client_that_leaves_a_stream_frees_the_engine(self):
        stream = create(self.through, "long leave", stream=True)
        next(iter(stream))
        stream.close()
        number = next(r["number"] for r in model.requests() if "long leave" in r["body"])

        def ended():
            return [e for e in model.log() if e["event"] == "end" and e["number"] == number]
        await_true(ended, "the engine's end")
        self.assertEqual(ended()[0]["how"], "gone")
        line, = self.recorded("long leave")
        self.assertEqual(line["end"], "client_abort")
        self.assertIn("abandoned", line["findings"])

    def test_many_at_once_from_threads_of_one_client(self):
        answers = [None] * 40

        def one(i):
            answers[i] = plain(create(self.through, f"thread {i}."))
        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(answers))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertTrue(all(answers))
        self.recorded('"thread ', len(answers))


class Concurrent(Case):
    def test_many_at_once_from_an_asynchronous_client(self):
        async def one(client, i):
            chunks = []
            async for chunk in await client.chat.completions.create(
                    model="scripted", messages=user(f"async {i}."), stream=True, tools=TOOLS,
                    stream_options=USAGE):
                chunks.append(plain(chunk))
            return chunks

        async def run(url, key, n):
            async with openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0) as client:
                return await asyncio.gather(*[one(client, i) for i in range(n)])

        n = 100
        got = asyncio.run(run(gateway.url, "the-rollout-s", n))
        lines = self.recorded('"async ', n)
        want = asyncio.run(run(model.url, KEY, 1))[0]
        usage = want[-1].pop("usage")
        for chunks in got:
            mine = chunks[-1].pop("usage")
            self.assertEqual(mine["completion_tokens"], usage["completion_tokens"])
            self.assertEqual(chunks, want)
        said = sorted(t["request"]["messages"][0]["content"] for t in lines)
        self.assertEqual(said, sorted(f"async {i}." for i in range(n)))
        for t in lines:
            self.assertEqual(len(t["completion_token_ids"]), usage["completion_tokens"])
            self.assertEqual(len(t["per_token_logps"]), usage["completion_tokens"])
            self.assertEqual(t["end"], "complete")


if __name__ == "__main__":
    tap.main()
