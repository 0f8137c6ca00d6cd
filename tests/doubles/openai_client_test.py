#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The official client against the scripted model: openai_client_test.py PROGRAM. Speaks TAP."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402

tap.need("openai")
import openai  # noqa: E402

PROGRAM = sys.argv[1]
END_ID = 65793
CALL = {"name": "write", "arguments": {"path": "a.txt", "content": "h\u00e9llo \U0001f600\n"}}
TOOLS = [{"type": "function", "function": {"name": "write", "parameters": {"type": "object"}}}]
IDS = {"return_token_ids": True}
SCRIPT = {
    "api_key": "secret",
    "scenes": [
        {"when": {"user_has": "busy"}, "times": 2, "fault": {
            "kind": "status", "status": 503, "headers": {"retry-after": "0"}}},
        {"when": {"user_has": "break"}, "fault": {"kind": "error_event", "after_events": 2}},
        {"when": {"user_has": "reset"}, "fault": {"kind": "reset", "after_events": 2}},
        {"when": {"user_has": "bytes"}, "reply": {"text": "\u00e9\U0001f600"},
         "wire": {"split": 1, "crlf": True, "pings": True}},
        {"when": {"call": 1, "tools": True}, "reply": {
            "reasoning": "Let me see.", "text": "I write it.", "tool_calls": [CALL, CALL]}},
        {"reply": {"text": "Done, \u00e9\U0001f600."}}]}


def setUpModule():
    global folder, model, url
    folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(folder.name)
    (path / "script.json").write_text(json.dumps(SCRIPT))
    model = subprocess.Popen([PROGRAM, "--script", path / "script.json", "--port-file",
                              path / "port", "--log", path / "log", "--die-with-parent"],
                             stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while not (path / "port").exists():
        if model.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the scripted model did not start")
        time.sleep(0.02)
    url = f"http://127.0.0.1:{(path / 'port').read_text().strip()}"


def tearDownModule():
    model.terminate()
    model.wait(10)
    folder.cleanup()


def text_of(ids):
    body = json.dumps({"tokens": ids}).encode()
    request = urllib.request.Request(f"{url}/detokenize", body)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["prompt"]


def user(text):
    return [{"role": "user", "content": text}]


class Client(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="secret", max_retries=0)
        self.addCleanup(self.client.close)

    def create(self, **more):
        more.setdefault("messages", user("hello"))
        return self.client.chat.completions.create(model="scripted", **more)

    def assert_agree(self, ids, entries, usage):
        self.assertEqual(len(ids), usage.completion_tokens)
        self.assertEqual(len(entries), len(ids))
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
        self.assertEqual(b"".join(bytes(e.bytes) for e in entries).decode(), text_of(ids))
        for e in entries:
            self.assertLessEqual(e.logprob, 0)
            self.assertEqual(len(e.top_logprobs), 3)
            self.assertEqual(e.top_logprobs[0].token, e.token)
        self.assertEqual(ids[-1], END_ID)

    def test_models_are_listed(self):
        found = self.client.models.list().data
        self.assertEqual([m.id for m in found], ["scripted"])
        self.assertEqual(found[0].max_model_len, 131072)

    def test_a_unary_answer_agrees_with_its_ids(self):
        r = self.create(logprobs=True, top_logprobs=3, extra_body=IDS)
        choice = r.choices[0]
        self.assertEqual(choice.message.content, "Done, \u00e9\U0001f600.")
        self.assertEqual(choice.finish_reason, "stop")
        self.assertEqual(len(r.prompt_token_ids), r.usage.prompt_tokens)
        self.assert_agree(choice.token_ids, choice.logprobs.content, r.usage)
        self.assertEqual(text_of(choice.token_ids), "Done, \u00e9\U0001f600.<|im_end|>")

    def stream(self, **more):
        """All chunks of a stream, and what they amount to."""
        chunks = list(self.create(stream=True, stream_options={"include_usage": True}, **more))
        ids, entries, text, calls, finish = [], [], "", {}, None
        for chunk in chunks:
            for choice in chunk.choices:
                ids += getattr(choice, "token_ids", None) or []
                entries += choice.logprobs.content if choice.logprobs else []
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
                for c in choice.delta.tool_calls or []:
                    call = calls.setdefault(c.index, ["", ""])
                    call[0] += c.function.name or ""
                    call[1] += c.function.arguments or ""
        return chunks, ids, entries, text, calls, finish

    def test_a_stream_with_tools_agrees_with_its_ids(self):
        chunks, ids, entries, text, calls, finish = self.stream(
            tools=TOOLS, logprobs=True, top_logprobs=3, extra_body=IDS)
        self.assertEqual(text, "I write it.")
        self.assertEqual(finish, "tool_calls")
        self.assertEqual([name for name, _ in calls.values()], ["write", "write"])
        self.assertEqual([json.loads(a) for _, a in calls.values()], [CALL["arguments"]] * 2)
        self.assertEqual(len(chunks[0].prompt_token_ids), chunks[-1].usage.prompt_tokens)
        self.assert_agree(ids, entries, chunks[-1].usage)
        empty = [c for c in chunks[1:] if c.choices and not c.choices[0].finish_reason
                 and not c.choices[0].delta.model_dump(exclude_unset=True)]
        self.assertTrue(empty, "a parser that holds text back sends empty events for the ids")

    def test_without_capture_there_are_no_empty_events(self):
        chunks, ids, entries, _, _, _ = self.stream(tools=TOOLS)
        self.assertEqual((ids, entries), ([], []))
        for c in chunks[1:]:
            if c.choices and not c.choices[0].finish_reason:
                self.assertTrue(c.choices[0].delta.model_dump(exclude_unset=True))

    def test_streamed_and_unary_answers_are_the_same_tokens(self):
        unary = self.create(tools=TOOLS, extra_body=IDS).choices[0].token_ids
        self.assertEqual(self.stream(tools=TOOLS, extra_body=IDS)[1], unary)

    def test_the_next_prompt_begins_with_this_prompt_and_answer(self):
        first = self.create(tools=TOOLS, extra_body=IDS)
        answer = first.choices[0].message
        history = user("hello") + [
            {"role": "assistant", "content": answer.content, "reasoning_content": answer.reasoning,
             "tool_calls": [c.model_dump() for c in answer.tool_calls]},
            *[{"role": "tool", "tool_call_id": c.id, "content": "ok"} for c in answer.tool_calls]]
        second = self.create(messages=history, tools=TOOLS, extra_body=IDS)
        before = first.prompt_token_ids + first.choices[0].token_ids
        self.assertEqual(second.prompt_token_ids[:len(before)], before)
        self.assertEqual(second.choices[0].message.content, "Done, \u00e9\U0001f600.")

    def test_tokens_can_come_as_ids(self):
        r = self.create(logprobs=True, top_logprobs=2,
                        extra_body={**IDS, "return_tokens_as_token_ids": True})
        choice = r.choices[0]
        self.assertEqual([e.token for e in choice.logprobs.content],
                         [f"token_id:{i}" for i in choice.token_ids])

    def test_max_tokens_cuts_the_answer(self):
        chunks, ids, _, _, _, finish = self.stream(max_tokens=3, extra_body=IDS)
        self.assertEqual((len(ids), finish, chunks[-1].usage.completion_tokens), (3, "length", 3))

    def test_several_choices_differ_in_their_log_probabilities_only(self):
        r = self.create(n=2, logprobs=True, extra_body=IDS)
        a, b = r.choices
        self.assertEqual(a.token_ids, b.token_ids)
        self.assertNotEqual([e.logprob for e in a.logprobs.content],
                            [e.logprob for e in b.logprobs.content])

    def test_the_engine_s_refusals_are_400(self):
        for more in ({"stream_options": {"include_usage": True}}, {"tools": []},
                     {"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 21},
                     {"tool_choice": "auto"}, {"messages": []}, {"max_tokens": 200000}):
            with self.assertRaises(openai.BadRequestError, msg=more) as caught:
                self.create(**more)
            self.assertEqual(caught.exception.body["code"], 400)

    def test_a_wrong_key_and_an_unknown_model_are_told(self):
        with self.assertRaises(openai.AuthenticationError):
            self.client.with_options(api_key="wrong").models.list()
        with self.assertRaises(openai.NotFoundError):
            self.client.chat.completions.create(model="other", messages=user("hello"))

    def test_a_busy_server_is_tried_again(self):
        r = self.client.with_options(max_retries=2).chat.completions.create(
            model="scripted", messages=user("busy"))
        self.assertEqual(r.choices[0].finish_reason, "stop")

    def test_a_stream_that_comes_byte_by_byte_is_read(self):
        self.assertEqual(self.stream(messages=user("bytes"))[3], "\u00e9\U0001f600")

    def test_an_error_inside_a_stream_is_raised(self):
        with self.assertRaises(openai.APIError):
            self.stream(messages=user("break"))

    def test_a_reset_inside_a_stream_is_raised(self):
        # The client hands on what its transport says, without a class of its own.
        with self.assertRaises(Exception) as caught:
            self.stream(messages=user("reset"))
        self.assertNotIsInstance(caught.exception, AssertionError)


if __name__ == "__main__":
    tap.main()
