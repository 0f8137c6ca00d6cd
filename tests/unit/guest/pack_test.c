/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/pack.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"
#include "guest/protocol.h"
#include "tests/testing.h"

/* What the guest packs is unpacked by the system's tar, and compared. */

static int setup(void **state) {
    char *dir = mem_strdup("/tmp/guest-pack-test-XXXXXX");
    if (!dir || !mkdtemp(dir)) {
        return -1;
    }
    *state = dir;
    return chdir(dir) < 0 || mkdir("home", 0700) < 0 || mkdir("out", 0700) < 0 ? -1 : 0;
}

static int teardown(void **state) {
    struct err err = {0};
    int r = chdir("/") < 0 ? -1 : file_remove_tree(*state, &err);
    free(*state);
    return r;
}

static int run(const char *const *argv, struct buf *out, struct buf *said) {
    struct err err = {0};
    struct proc_result r = {0};
    assert_ok(proc_run(&(struct proc_options){.argv = argv}, &r, &err), &err);
    assert_int_equal(buf_add_sv(out, buf_sv(&r.out)), 0);
    assert_int_equal(buf_add_sv(said, buf_sv(&r.err)), 0);
    int code = r.exit_code;
    proc_result_deinit(&r);
    return code;
}

static void shell(const char *text, struct buf *out) {
    AUTO_BUF struct buf said = {0};
    const char *argv[] = {"bash", "-c", text, NULL};
    if (run(argv, out, &said) != 0) {
        fail_msg("%s: %s", text, buf_cstr(&said));
    }
}

static int pack_home(const char *max, struct buf *said) {
    AUTO_BUF struct buf out = {0};
    const char *argv[] = {
        getenv("SNAFFLE_GUEST"), "pack", "--from", "home", "--to", "t.tar", "--max", max, NULL};
    assert_non_null(argv[0]);
    return run(argv, &out, said);
}

static void check_same(void) {
    static const char list[] = "%P %y %m %l %T@ %n\\n";
    AUTO_FREE char *in_home = mem_printf("cd home; find . -printf '%s' | sort", list);
    AUTO_FREE char *in_out = mem_printf("cd out; find . -printf '%s' | sort", list);
    AUTO_BUF struct buf before = {0};
    AUTO_BUF struct buf after = {0};
    AUTO_BUF struct buf nothing = {0};
    shell("tar -C out -xpf t.tar", &nothing);
    shell("cd home; find . -type f -exec cmp {} ../out/{} ';'", &nothing);
    shell(in_home, &before);
    shell(in_out, &after);
    assert_string_equal(buf_cstr(&nothing), "");
    assert_string_equal(buf_cstr(&after), buf_cstr(&before));
}

static void names_kinds_and_rights_come_out_as_they_were(void **state) {
    (void)state;
    AUTO_BUF struct buf out = {0};
    AUTO_BUF struct buf said = {0};
    shell(
        "cd home; echo plain >f; ln f hard; ln -s f link; ln -s $(printf %0150d 1) far; mkfifo p; "
        "mkdir -p $(printf %0120d 2)/$(printf %0140d 3); echo x >$(printf %0120d 2)/deep; "
        "ln $(printf %0120d 2)/deep linked; head -c 100000 /dev/zero >zeros; : >empty; "
        "for n in $(seq 90 110); do echo $n >$(printf %0${n}d 4); done; chmod 4751 f; "
        "mkdir shut; touch shut/in; chmod 0 shut zeros; touch -d @-5 old; touch -d @0 old; "
        "touch 'a b' $'new\\nline' $'\\xff\\xfe'; find . -exec touch -h -d @1700000000 {} +",
        &out);
    assert_int_equal(pack_home("10000000", &said), 0);
    check_same();
}

static void sockets_are_left_out(void **state) {
    (void)state;
    AUTO_BUF struct buf said = {0};
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "home/socket"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    close(fd);
    assert_int_equal(pack_home("10000000", &said), 0);
    AUTO_BUF struct buf out = {0};
    shell("tar -C out -xpf t.tar; ls out", &out);
    assert_string_equal(buf_cstr(&out), "");
}

static void what_is_more_than_the_limit_is_said_at_once(void **state) {
    (void)state;
    AUTO_BUF struct buf out = {0};
    AUTO_BUF struct buf said = {0};
    shell("head -c 20000 /dev/zero >home/f", &out);
    assert_int_equal(pack_home("22528", &said), 0); /* Heads, content and end, to the byte. */
    assert_int_equal(pack_home("22527", &said), PROTOCOL_EXIT_ERR + ERR_POS_LIMIT);
    assert_non_null(strstr(buf_cstr(&said), "more than 22527 bytes"));
    shell("truncate -s 1T home/hole", &out);
    assert_int_equal(pack_home("1000000000", &said), PROTOCOL_EXIT_ERR + ERR_POS_LIMIT);
    struct stat st;
    assert_int_equal(stat("t.tar", &st), 0);
    assert_true(st.st_size < 100000);
}

static void what_can_not_be_packed_says_why(void **state) {
    (void)state;
    AUTO_BUF struct buf out = {0};
    AUTO_BUF struct buf said = {0};
    const char *argv[] = {getenv("SNAFFLE_GUEST"), "pack", "--from", "none", "--to", "t", NULL};
    assert_true(run(argv, &out, &said) > PROTOCOL_EXIT_ERR);
    assert_non_null(strstr(buf_cstr(&said), "cannot pack 'none'"));
    shell("cd home; for i in $(seq 450); do mkdir d && cd d || exit 1; done", &out);
    assert_int_equal(pack_home("10000000", &said), PROTOCOL_EXIT_ERR + ERR_POS_LIMIT);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(names_kinds_and_rights_come_out_as_they_were),
    CASE(sockets_are_left_out),
    CASE(what_is_more_than_the_limit_is_said_at_once),
    CASE(what_can_not_be_packed_says_why),
};

RUN_TESTS(tests)
