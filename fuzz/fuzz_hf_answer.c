/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever the Hub, its proxy or sbx-server answers: words come out as one line of bounded length,
 * the next page is the Hub's own, numbers keep their range, and each failure says why. The part of
 * the input before its first empty line is the head. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "sandbox/hf/answer.h"
#include "sandbox/hf/rate.h"

#define ENDPOINT "https://hub"

static void check_line(struct buf *b, size_t max) {
    BUG_IF(b->len > max);
    for (size_t i = 0; i < b->len; i++) {
        BUG_IF((unsigned char)b->data[i] < ' ');
    }
    buf_deinit(b);
}

static void read_words(struct sv head, struct sv body) {
    struct buf b = {0};
    BUG_IF(hf_answer_fault(head, body, &b) < 0);
    check_line(&b, 300);
    int r = hf_answer_server_fault(body, &b);
    BUG_IF(r < 0 || (r == 0 && b.len > 0));
    check_line(&b, 300);
    BUG_IF(hf_answer_log(body, &b) < 0);
    check_line(&b, body.n);
}

static void read_lists(struct sv head, struct sv body) {
    struct err err = {0};
    AUTO_JSON json_t *all = json_array();
    int r = hf_answer_jobs(body, all, &err);
    BUG_IF(r < 0 && !err.msg[0]);
    AUTO_JSON json_t *stages = hf_answer_stages(all);
    const char *id;
    json_t *stage;
    json_object_foreach(stages, id, stage) {
        BUG_IF(!json_is_string(stage));
    }
    char *next = hf_answer_next_page(head, ENDPOINT);
    BUG_IF(next && strncmp(next, ENDPOINT "/", sizeof ENDPOINT) != 0);
    free(next);
}

static void read_numbers(struct sv head, struct sv body) {
    struct err err = {0};
    int protocol = 1;
    uint64_t size = 0;
    BUG_IF(hf_answer_protocol(body, &protocol, &err) < 0 && !err.msg[0]);
    BUG_IF(protocol < 1 || protocol > 99);
    BUG_IF(hf_answer_size(body, "f", &size, &err) < 0 && !err.msg[0]);
    BUG_IF(size > INT64_MAX);
    struct hf_rate rate = HF_RATE_INIT;
    hf_rate_learn(&rate, head.n % 2 ? 429 : 200, head);
    BUG_IF(rate.known && rate.left < 0);
    int r = hf_rate_take(&rate, deadline_in_ms(0), NULL, &err);
    BUG_IF(r != 0 && r != ERR_QUOTA);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sv all = {(const char *)data, size};
    size_t end = sv_find(all, SV("\n\n"));
    struct sv head = {all.p, end == (size_t)-1 ? all.n : end + 1};
    struct sv body = sv_cut(all, end == (size_t)-1 ? 0 : end + 2);
    read_words(head, body);
    read_lists(head, body);
    read_numbers(head, body);
    return 0;
}
