/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/sandbox/contract.h"
#include "tests/sandbox/local_world.h"

/* What a process inside is, sees, and is refused. */

#define SECRET "a-secret-of-the-host-73105"

static const char *says(const char *shell) {
    return contract_says(contract_shared(), shell);
}

static void the_user_inside_is_1000_with_no_privilege(void **state) {
    (void)state;
    assert_string_equal(says("id -u; id -g; id -G; id -un; echo $USER $HOME"),
                        "1000\n1000\n1000\nuser\nuser /home/user\n");
    assert_string_equal(
        says("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t '"),
        "CapInh:0000000000000000\nCapPrm:0000000000000000\n"
        "CapEff:0000000000000000\nCapBnd:0000000000000000\n"
        "CapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n");
}

/* Inside, the map tells of the namespace above only: the truth is the host's to see. */
static unsigned long uid_outside(struct sandbox *s) {
    struct err err = {0};
    AUTO_JSON json_t *record = NULL;
    AUTO_BUF struct buf status = {0};
    AUTO_FREE char *path = mem_printf("%s/sandboxes/%s/record.json", world_state(), sandbox_id(s));
    assert_ok(json_load(path, 65536, &record, &err), &err);
    AUTO_FREE char *of_process = mem_printf(
        "/proc/%lld/status", (long long)json_integer_value(json_object_get(record, "pid")));
    assert_ok(file_read(of_process, 65536, &status, &err), &err);
    const char *uid = strstr(buf_cstr(&status), "\nUid:\t");
    assert_non_null(uid);
    return strtoul(uid + 6, NULL, 10);
}

static void the_user_outside_is_never_root_and_each_sandbox_has_its_own(void **state) {
    (void)state;
    struct sandbox *other = contract_make(NULL);
    unsigned long a = uid_outside(contract_shared());
    unsigned long b = uid_outside(other);
    contract_end(other);
    if (geteuid() == 0) {
        assert_true(a >= 1900000000 && b >= 1900000000);
        assert_int_not_equal(a, b);
    } else {
        assert_int_equal(a, geteuid());
        assert_int_equal(b, geteuid());
    }
}

static void nothing_of_the_hosts_environment_is_seen(void **state) {
    (void)state;
    assert_string_equal(says("env | grep -c " SECRET), "0\n");
    assert_string_equal(
        says("cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c " SECRET), "0\n");
    assert_string_equal(says("cat /proc/1/environ 2>&1 >/dev/null | grep -c denied"), "1\n");
    assert_string_equal(
        says("env | cut -d= -f1 | grep -v -e ^_ -e ^PWD -e ^SHLVL -e ^OLDPWD | sort | "
             "tr '\\n' ' '"),
        "HOME LANG LOGNAME PATH SHELL USER ");
}

static void a_command_has_no_descriptor_but_its_three(void **state) {
    (void)state;
    /* This program holds one on purpose; it must not come through. */
    AUTO_CLOSE int leak = open("/dev/zero", O_RDONLY); /* Without close-on-exec. */
    assert_true(leak >= 0);
    struct sandbox *s = contract_make(NULL);
    assert_string_equal(contract_says(s, "for n in $(seq 0 99); do [ -e /proc/$$/fd/$n ] && echo "
                                         "$n; done"),
                        "0\n1\n2\n");
    contract_end(s);
}

static void the_guest_can_be_neither_read_nor_hurt(void **state) {
    (void)state;
    assert_string_equal(says("kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1; "
                             "cat /proc/1/mem /proc/1/maps 2>/dev/null | wc -c; "
                             "ls /proc/1/fd 2>/dev/null | wc -l; echo alive"),
                        "0\n0\nalive\n");
    assert_string_equal(says("echo still"), "still\n");
    assert_string_equal(says("tr '\\0' ' ' </proc/1/cmdline | grep -c -e /tmp/ -e sandboxes"),
                        "0\n");
}

static void the_system_is_read_only_and_scratch_is_bounded(void **state) {
    (void)state;
    assert_string_equal(
        says("for p in / /usr /etc /dev /run /var /bin /run/snaffle /opt; do "
             ": 2>/dev/null >$p/x && echo open $p; mkdir $p/y 2>/dev/null && echo open "
             "$p; done; for p in /tmp /dev/shm /var/tmp \"$HOME\"; do : >$p/x || echo "
             "shut $p; rm $p/x; done; : >/dev/null && echo end"),
        "end\n");
    assert_string_equal(says("df -m --output=size /tmp /dev/shm | tail -2 | tr -d ' '"),
                        "512\n128\n");
}

static void the_machine_can_not_be_changed_from_inside(void **state) {
    (void)state;
    assert_string_equal(
        says("for f in vm/swappiness kernel/core_pattern kernel/hostname; do "
             "cat /proc/sys/$f 2>/dev/null >/proc/sys/$f && echo open $f; done "
             "2>/dev/null; unshare -U true 2>/dev/null && echo userns; unshare -Ur true "
             "2>/dev/null && echo userns; mount -t tmpfs x /tmp 2>/dev/null && echo "
             "mount; hostname evil 2>/dev/null && echo hostname; su -c true "
             "</dev/null >/dev/null 2>&1 && echo su; echo end"),
        "end\n");
}

/* The numbers of x86-64 and of the generic table where they differ. */
static void refused_system_calls_say_so_and_tracing_works(void **state) {
    (void)state;
    if (access("/usr/bin/python3", X_OK) < 0) {
        skip_because("no /usr/bin/python3 to make system calls with");
    }
    assert_string_equal(
        says("cat >calls.py <<'E'\n"
             "import ctypes, os, errno, platform, socket\n"
             "libc = ctypes.CDLL(None, use_errno=True)\n"
             "x = platform.machine() == 'x86_64'\n"
             "calls = {'bpf': 321 if x else 280, 'perf_event_open': 298 if x else 241,\n"
             " 'userfaultfd': 323 if x else 282, 'io_uring_setup': 425, 'keyctl': 250 if x else "
             "219,\n"
             " 'add_key': 248 if x else 217, 'mount': 165 if x else 40, 'fsopen': 430,\n"
             " 'open_tree': 428, 'move_mount': 429, 'open_by_handle_at': 304 if x else 265,\n"
             " 'setns': 308 if x else 268, 'kexec_load': 246 if x else 104,\n"
             " 'init_module': 175 if x else 105}\n"
             "for name, number in calls.items():\n"
             "    r = libc.syscall(number, 0, 0, 0, 0, 0)\n"
             "    if r != -1 or ctypes.get_errno() != errno.EPERM: print('open', name, r)\n"
             "for family in (40, 38, 17, 9):\n"
             "    try: socket.socket(family, socket.SOCK_STREAM); print('open family', family)\n"
             "    except OSError as e:\n"
             "        if e.errno != errno.EAFNOSUPPORT: print('family', family, e)\n"
             "for family in (1, 2, 10): socket.socket(family, socket.SOCK_STREAM).close()\n"
             "if os.fork() == 0: print('trace', libc.ptrace(0, 0, 0, 0), flush=True); os._exit(0)\n"
             "os.wait()\n"
             "E\n"
             "/usr/bin/python3 calls.py; rm calls.py"),
        "trace 0\n");
}

static void names_resolve_from_files_and_localhost_does(void **state) {
    (void)state;
    assert_string_equal(
        says("getent hosts localhost | head -1 | tr -s ' '; getent hosts sandbox | tr "
             "-s ' '; getent hosts example.org; getent passwd 1000 | cut -d: -f6"),
        "::1 localhost\n127.0.0.1 localhost sandbox\n/home/user\n");
}

static void the_usual_tools_work(void **state) {
    (void)state;
    assert_string_equal(
        says("git init -q r 2>&1 && cd r && git -c user.name=a -c user.email=a@b commit "
             "-q --allow-empty -m x && git log --oneline | wc -l"),
        "1\n");
    assert_string_equal(says("rm -rf r; printf 'int main(void){return 0;}' >t.c; if command -v cc "
                             ">/dev/null; then cc t.c -o t && ./t && echo ok; else echo ok; fi"),
                        "ok\n");
    assert_string_equal(says("if command -v python3 >/dev/null; then python3 -c 'import ssl; "
                             "ssl.create_default_context(); print(1)'; else echo 1; fi"),
                        "1\n");
}

static void too_many_processes_are_refused_and_the_harness_lives(void **state) {
    (void)state;
    struct sandbox_spec spec = {.limits = {.processes = 40}};
    struct sandbox *s = contract_make(&spec);
    struct sandbox *other = contract_make(&spec);
    struct err err = {0};
    struct sandbox_output o = {0};
    AUTO_FREE char *fork_many = mem_printf("for i in $(seq 200); do sleep %s & done", world_mark());
    struct sandbox_exec what = {.argv = (const char *[]){"sh", "-c", fork_many, NULL},
                                .timeout_s = 30};
    assert_ok(sandbox_exec(s, &what, &o, &err), &err);
    sandbox_output_deinit(&o);
    int n = world_processes_named(world_mark());
    assert_true(n > 10 && n <= 40);
    /* The other one has its own count. */
    assert_string_equal(
        contract_says(other, "for i in 1 2 3 4 5; do (true) || echo no; done; echo ok"), "ok\n");
    assert_ok(sandbox_kill_all(s, deadline_in_s(PATIENCE_S), &err), &err);
    assert_string_equal(contract_says(s, "echo ok"), "ok\n");
    contract_end(other);
    contract_end(s);
}

static void the_homes_folder_is_private(void **state) {
    (void)state;
    struct stat st;
    AUTO_FREE char *dir =
        mem_printf("%s/sandboxes/%s", world_state(), sandbox_id(contract_shared()));
    AUTO_FREE char *home = file_join(dir, "home");
    AUTO_FREE char *socket = file_join(dir, "guest.sock");
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0711);
    assert_int_equal(stat(home, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(socket, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(the_user_inside_is_1000_with_no_privilege),
    cmocka_unit_test(the_user_outside_is_never_root_and_each_sandbox_has_its_own),
    cmocka_unit_test(nothing_of_the_hosts_environment_is_seen),
    cmocka_unit_test(a_command_has_no_descriptor_but_its_three),
    cmocka_unit_test(the_guest_can_be_neither_read_nor_hurt),
    cmocka_unit_test(the_system_is_read_only_and_scratch_is_bounded),
    cmocka_unit_test(the_machine_can_not_be_changed_from_inside),
    cmocka_unit_test(refused_system_calls_say_so_and_tracing_works),
    cmocka_unit_test(names_resolve_from_files_and_localhost_does),
    cmocka_unit_test(the_usual_tools_work),
    cmocka_unit_test(too_many_processes_are_refused_and_the_harness_lives),
    cmocka_unit_test(the_homes_folder_is_private),
};

int main(int argc, char **argv) {
    setenv("SNAFFLE_TEST_SECRET", SECRET, 1);
    world_enter(argc > 1 && strcmp(argv[1], "--as-user") == 0);
    int failed = contract_run_cases(&sandbox_local, cases, ARRAY_LEN(cases));
    return world_leave() ? failed : 1;
}
