/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/finding.h"

#include <stddef.h>
#include <string.h>

#define F FINDING_FATAL
#define W FINDING_WARNING
#define I FINDING_INFO

const struct finding_kind finding_of_calls[] = {
    /* What the engine did not give, or gave wrongly. */
    {"not_complete", F,
     "the answer did not come to its end (`end` says how it broke off), or was an error", NULL},
    {"no_choices", F, "the engine answered without an error, but with no choice",
     "look at the engine's own log"},
    {"no_finish_reason", F,
     "the answer ended without saying why, so it may have been cut; agents ask again",
     "look for an engine that lost its stream, or update it"},
    {"engine_abort", F, "the engine itself broke the answer off (`finish_reason` abort or error)",
     "look whether it was stopped for new weights, or is out of memory"},
    {"upstream_error_event", F, "an error came within the stream (`upstream_error` has it)",
     "look at `upstream_error`"},
    {"unparsed_events", F, "the engine sent events that are no JSON; they were passed on",
     "run again with --keep-raw and look at the raw answer"},
    {"no_prompt_ids", F, "the engine gave no token ids of the prompt",
     "use an engine that answers return_token_ids (vLLM 0.10.2 or later)"},
    {"no_sampled_ids", F, "the engine gave no token ids of its answer",
     "use an engine that answers return_token_ids (vLLM 0.10.2 or later)"},
    {"asked_but_absent", F,
     "ids or log-probabilities were asked for, and the engine passed it over in silence",
     "snaffle gateway probe says what the endpoint gives"},
    {"ids_incomplete", F,
     "there are fewer ids than the engine counted tokens, or gave log-probabilities for: some "
     "chunks came without",
     "update the engine: old ones lose ids with streamed tool calls and reasoning"},
    {"bad_token_id", F, "a token id is no whole number from 0 up", "look at the engine's own log"},
    {"no_logprobs", F, "the engine gave no log-probabilities",
     "use an engine or a model that gives them"},
    {"logprobs_incomplete", F,
     "there are fewer log-probabilities than ids: some chunks came "
     "without",
     "update the engine: old ones lose them with streamed tool calls and reasoning"},
    {"logprob_misalign", F,
     "ids and log-probabilities do not pair: their numbers differ, or a row names another id",
     "update the engine; the values can't be put right afterwards"},
    {"logprob_contradicted", F,
     "a token's log-probability is not the one that its own alternatives (`top_logprobs`) show",
     "update the engine; look whether it decodes speculatively"},
    {"id_text_mismatch", F,
     "one and the same id stands beside different texts, so ids and rows are shifted",
     "update the engine; the values can't be put right afterwards"},
    {"null_logprob", F, "a log-probability is missing, or no number",
     "look at the engine's own "
     "log"},
    {"nonfinite_logprob", F, "a log-probability is NaN or an infinity",
     "look for numbers that overflow in the engine: weights, precision, a broken sync"},
    {"floored_logprob", F,
     "a log-probability is -9999 or below, which engines write where they have none",
     "look for a token that the engine's sampling had ruled out"},
    {"positive_logprob", F, "a log-probability is above 0", "look at the engine's precision"},
    {"zero_logprobs", F,
     "all log-probabilities (four or more) are exactly 0: made up, or of an answer without chance",
     "switch speculative decoding off, or raise the temperature"},
    {"usage_mismatch", F, "there are not as many ids as `usage.completion_tokens` says",
     "update the engine: tokens were lost in its stream"},
    {"prompt_usage_mismatch", F, "there are not as many prompt ids as `usage.prompt_tokens` says",
     "look whether the engine cuts prompts, or counts images apart"},
    /* What was sampled was not the policy's own distribution. */
    {"raw_logprobs", F,
     "the log-probabilities may be those before temperature and truncation, and the sampling was "
     "not neutral",
     "say --logprobs-processed if the engine gives those it sampled from, or sample neutrally: "
     "temperature 1 and --neutral-sampling"},
    {"greedy_sampling", F,
     "temperature 0: the likeliest token was taken and not drawn, so no log-probability is that of "
     "a draw",
     "let the agent send no temperature, or one above 0"},
    {"constrained_decoding", F,
     "a grammar, schema or forced tool choice ruled tokens out, and log-probabilities are taken "
     "under it in every mode",
     "let the agent send no response_format, guided or structured output, and tool_choice auto"},
    /* What was kept of it. */
    {"capture_limit", F, "the answer was too big to be kept whole; it was passed on",
     "ask for fewer alternatives (--proxy-top-logprobs), or cap the tokens"},
    {"encoded_answer", F,
     "the engine encoded its answer though it was asked not to, and it could not be decoded; it "
     "was passed on unread",
     "switch compression off in front of the engine"},
    {"part_invalid", F,
     "a recorded value is no valid JSON and stands as null; its bytes are in the journal", NULL},
    {"head_invalid", F, "the head of a record of the call is damaged in the journal",
     "look at the disk"},
    {"record_damaged", F, "a record of the call is damaged in the journal", "look at the disk"},
    {"intent_missing", F, "the record of the request is lost", "look at the disk"},
    {"tail_missing", F, "the end that came late was not recorded", NULL},
    /* Worth a look. */
    {"abandoned", W,
     "the agent left before the answer's end: role `discarded`, nothing followed "
     "from it",
     "look at the agent's own time limits if there are many"},
    {"biased_sampling", W,
     "truncation, penalties or a bias were in force; the log-probabilities, stated as processed, "
     "are those of what was left",
     "let the trainer apply the same sampling, or use --neutral-sampling"},
    {"sampling_neutralised", W,
     "the gateway switched truncation and penalties off (`sampling` has what was asked and what "
     "was sent)",
     NULL},
    {"policy_changed", W,
     "the policy's version changed while the answer was under way; `policy_version` is the one at "
     "its beginning",
     "let the trainer take the turn as one of mixed weights, or pause the engine"},
    {"several_choices", W,
     "more than one choice was asked for; only the first is recorded by "
     "tokens",
     NULL},
    {"no_usage", W,
     "the engine did not count the tokens, so that the ids were compared with "
     "nothing",
     NULL},
    {"text_mismatch", W,
     "the answer's text is not that of its tokens: the engine lost or changed some on their way to "
     "the agent",
     "update the engine, or look at its reasoning and tool parsers"},
    {"reasoning_hidden", W,
     "the agent asked for no reasoning (include_reasoning false), and engines then keep its ids "
     "back too",
     NULL},
    {"content_filtered", W, "the engine's filter ended the answer", NULL},
    {"empty_completion", W, "no text, no reasoning, no tool call", NULL},
    {"tool_index", W,
     "the tool calls are numbered wrongly (not 0, 1, 2 ...), or two stand under one number and are "
     "joined, as agents join them",
     "update the engine's tool parser"},
    {"tool_call_no_id", W, "a tool call came without an id or a name",
     "update the engine's tool parser"},
    /* For the record. */
    {"tool_arguments_invalid", I,
     "the arguments of a tool call are no JSON object: the model's "
     "own mistake, as a rule",
     NULL},
    {"title", I, "the agent asked for a title: role `auxiliary`", NULL},
    {"summary", I, "the agent had its history summed up: role `auxiliary`", NULL},
    {"subagent", I, "a call of an agent that the agent started", NULL},
    {"truncated_turn", I, "the answer stopped at the token limit", NULL},
    {"stop_token_absent", I,
     "the engine counts the token that ended the answer, and tells neither its id nor its "
     "log-probability (llama.cpp)",
     NULL},
    {"certain_tokens", I, "some log-probabilities are exactly 0", NULL},
    {0},
};

const struct finding_kind finding_of_rollouts[] = {
    {"no_turns", F, "calls were to be recorded, and there is none", "look at agent.log"},
    {"nothing_trainable", F, "no turn is trainable; the codes of the turns say why", NULL},
    {"loop_broken", W,
     "the agent sent a request again and again that failed each time, and further ones were "
     "refused "
     "(--loop-break)",
     "look at gateway.log"},
    {"policy_changed", W,
     "the policy's version changed while the agent worked, and its gateway, inside the sandbox, "
     "could not be told: the calls have the version of its start",
     "let the trainer take the rollout as one of mixed weights"},
    {"open_calls", W, "calls have a beginning but no end in the journal", NULL},
    {"journal_torn", W,
     "damaged places were met in the journal; says how many, and where the first are",
     "look at the disk"},
    {"discarded_turns", W, "turns led to nothing: they failed, or the agent did not wait for them",
     "look at gateway.log"},
    {"setup_offline", W,
     "setup should have had the outside network, and this machine can't give it",
     "snaffle doctor says what is missing"},
    {"agent_log_unreadable", W,
     "the agent's log could not be read: removed, or replaced by no regular file", NULL},
    {"files_unreadable", W, "the work folder could not be listed", NULL},
    {"file_not_kept", W, "a file of the work folder could not be written under `files/`", NULL},
    {"memory_limit", W, "the memory limit was hit: a program was killed for it, or all that ran",
     "raise limits.memory_mb"},
    {"process_limit", W, "as many processes and threads ran as may", "raise limits.processes"},
    {"disk_limit", W, "the home, /tmp or /dev/shm was full, or grew beyond its limit",
     "raise limits.disk_mb"},
    {"teardown_failed", W, "the sandbox could not be torn down", "run snaffle gc"},
    {"template_ignored", W, "the call named a template, and the backend has none", NULL},
    {"prompt_ids_unreadable", W, "the trace could not be read for the prompts' token ids", NULL},
    {"answer_cut", W, "the call's answer was too large: token arrays were left out of it",
     "read the stored rollout: snaffle show, snaffle trace"},
    {0},
};

static const struct finding_kind *find(const struct finding_kind *kinds, const char *code) {
    for (; kinds->code; kinds++) {
        if (strcmp(kinds->code, code) == 0) {
            return kinds;
        }
    }
    return NULL;
}

const struct finding_kind *finding_of_call(const char *code) {
    return find(finding_of_calls, code);
}

const struct finding_kind *finding_of_rollout(const char *code) {
    return find(finding_of_rollouts, code);
}

const char *finding_severity_name(enum finding_severity severity) {
    static const char *const names[] = {"fatal", "warning", "info"};
    return names[severity];
}

bool finding_is_fatal(const char *code) {
    const struct finding_kind *kind = finding_of_call(code);
    return !kind || kind->severity == FINDING_FATAL;
}
