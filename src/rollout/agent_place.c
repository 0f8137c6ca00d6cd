/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/agent_place.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/installer.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "rollout/agent_packed.h"
#include "sandbox/digest.h"

#define LOOK_S 60  /* A start of the program takes a second or two. */
#define CHECK_S 60 /* And the digest of 200 MB another. */
#define INSTALL_ATTEMPTS 3
#define INSTALL_BACKOFF_S 3.0 /* As the reference: 3, then 6. */
#define INSTALL_S 240.0       /* Each. */
#define SEND_ATTEMPTS 2       /* The first compressed, where that can be had. */
#define EXIT_DIGEST 5
#define EXIT_UNPACK 6
#define LATEST "latest"

/*
 * Prints what the machine is, then "VERSION PATH" of each program that there is. An image of ours
 * tells by its notes, without a start of the program.
 */
static const char look[] =
    "libc=other\n"
    "for f in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do\n"
    "  [ ! -e $f ] || libc=glibc\n"
    "done\n"
    "printf '%s %s\\n' \"$(uname -m)\" $libc\n"
    "if [ -n \"$SHA256\" ] && read -r p 2>/dev/null <\"/opt/snaffle/by-digest/$SHA256\"; then\n"
    "  printf '%s %s\\n' \"$VERSION\" \"$p\"; exit 0\n"
    "fi\n"
    "for p in \"$PLACE\" \"$PROGRAM\" \"/usr/local/bin/$NAME\" \"/usr/bin/$NAME\"; do\n"
    "  [ ! -x \"$p\" ] || printf '%s %s\\n' \"$(\"$p\" --version 2>/dev/null | head -n 1)\" "
    "\"$p\"\n"
    "done\n"
    "true\n";

/* Of what was sent compressed nothing stands in its place before it is all there and right. */
static const char check[] =
    "at=$PLACE\n"
    "if [ -n \"$PACKED\" ]; then\n"
    "  at=$PLACE.new; gunzip -c <\"$PACKED\" >\"$at\" && chmod 755 \"$at\" || exit 6\n"
    "else rm -f \"$PLACE.gz\" \"$PLACE.new\"; fi\n"
    "if command -v sha256sum >/dev/null; then sum=$(sha256sum <\"$at\")\n"
    "else sum=$(openssl dgst -sha256 -r <\"$at\"); fi\n"
    "[ \"${sum%% *}\" = \"$SHA256\" ] || { echo \"its digest is ${sum%% *}\" >&2; exit 5; }\n"
    "if [ -n \"$PACKED\" ]; then mv -f \"$at\" \"$PLACE\" && rm -f \"$PACKED\" || exit 6; fi\n"
    "\"$PLACE\" --version\n";

struct place {
    struct rollout_session *s;
    const struct agent *agent;
    const char *wanted; /* NULL: any; the latest, if there is none. */
    char *path;         /* Where it is put, and its own installer puts it. */
    const char *packed; /* Where it is sent to be unpacked; NULL: it is sent as it is. */
    char sha256[DIGEST_HEX_MAX];
};

/* --- inside --- */

static int run(const struct place *p, const char *text, double timeout_s,
               struct sandbox_output *out, struct err *err) {
    AUTO_FREE char *digest = mem_printf("SHA256=%s", p->sha256);
    AUTO_FREE char *version = mem_printf("VERSION=%s", p->wanted ? p->wanted : "");
    AUTO_FREE char *place = mem_printf("PLACE=%s", p->path);
    AUTO_FREE char *program = mem_printf("PROGRAM=%s", p->agent->program_path);
    AUTO_FREE char *name = mem_printf("NAME=%s", p->agent->name);
    AUTO_FREE char *packed = mem_printf("PACKED=%s", p->packed ? p->packed : "");
    const char *const env[] = {digest, version, place, program, name, packed, NULL};
    if (!digest || !version || !place || !program || !name || !packed) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return sandbox_exec(p->s->sandbox,
                        &(struct sandbox_exec){.shell = text,
                                               .env = env,
                                               .clean = true,
                                               .cwd = "/",
                                               .timeout_s = timeout_s,
                                               .cancel = p->s->stop},
                        out, err);
}

static struct sv take_line(struct sv *rest) {
    size_t n = sv_find(*rest, SV("\n"));
    n = n == (size_t)-1 ? rest->n : n;
    struct sv line = {rest->p, n};
    *rest = sv_cut(*rest, n < rest->n ? n + 1 : n);
    return line;
}

static int take(struct rollout_session *s, struct sv version, struct sv program, struct err *err) {
    AUTO_BUF struct buf clean = {0};
    if (utf8_clean(version, &clean) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    s->agent_version = mem_strdup(buf_cstr(&clean));
    s->program = mem_strndup(program.p, program.n);
    return s->agent_version && s->program ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* 1: the image has it. Gives what the machine is. */
static int find(const struct place *p, char machine[64], struct err *err) {
    struct sandbox_output out = {0};
    int r = run(p, look, LOOK_S, &out, err);
    if (r >= 0 && out.exit_code != 0) {
        r = err_set(err, ERR_SYS, "cannot look for %s inside: %.200s", p->agent->name,
                    buf_cstr(&out.err));
    }
    struct sv rest = r < 0 ? SV("") : buf_sv(&out.out);
    struct sv first = take_line(&rest);
    (void)snprintf(machine, 64, "%.*s", SV_ARG(first));
    while (r == 0 && rest.n > 0) {
        struct sv line = take_line(&rest);
        size_t blank = sv_find(line, SV(" "));
        struct sv version = {line.p, blank == (size_t)-1 ? 0 : blank};
        if (version.n > 0 && (!p->wanted || sv_eq(version, sv_from(p->wanted)))) {
            r = take(p->s, version, sv_cut(line, blank + 1), err);
            r = r < 0 ? r : 1;
        }
    }
    sandbox_output_deinit(&out);
    return r;
}

/* --- from here --- */

/* Whether this machine's copy can run there. */
static bool fits(const char *machine) {
    struct utsname u;
    bool glibc =
        file_exists("/lib64/ld-linux-x86-64.so.2") || file_exists("/lib/ld-linux-aarch64.so.1");
    AUTO_FREE char *here =
        uname(&u) == 0 ? mem_printf("%s %s", u.machine, glibc ? "glibc" : "other") : NULL;
    return here && strcmp(here, machine) == 0;
}

static int digest_of(const struct agent_installed *i, char out[DIGEST_HEX_MAX], struct err *err) {
    if (i->sha256 && strlen(i->sha256) < DIGEST_HEX_MAX) {
        memcpy(out, i->sha256, strlen(i->sha256) + 1);
        return 0;
    }
    AUTO_CLOSE int fd = open(i->program, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && digest_fd_hex(fd, out) == 0
               ? 0
               : err_sys(err, ERR_SYS, errno, "cannot read '%s'", i->program);
}

static int send_file(const struct place *p, const char *from, const char *to, unsigned mode,
                     struct err *err) {
    AUTO_CLOSE int fd = open(from, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0) {
        return err_sys(err, ERR_SYS, errno, "cannot read '%s'", from);
    }
    size_t n = (size_t)st.st_size;
    void *bytes = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        return err_sys(err, ERR_SYS, errno, "cannot read '%s'", from);
    }
    int r = sandbox_write_file(p->s->sandbox, to, (struct sv){bytes, n}, mode, err);
    munmap(bytes, n);
    return r;
}

/* Gives the exit code of `check`: 0, or it is not what was sent, or does not run there. */
static int send(const struct place *p, const char *packed, struct err *err) {
    struct sandbox_output out = {0};
    int r = packed ? send_file(p, packed, p->packed, 0644, err)
                   : send_file(p, p->s->factory->installed.program, p->path, 0755, err);
    r = r < 0 ? r : run(p, check, CHECK_S, &out, err);
    if (r >= 0 && out.exit_code != 0) {
        (void)err_set(err, ERR_SYS, "%s %s does not run inside (exit %d): %.200s", p->agent->name,
                      p->wanted, out.exit_code, buf_cstr(&out.err));
    }
    r = r < 0 ? r : out.exit_code;
    sandbox_output_deinit(&out);
    return r;
}

/* This machine's copy, compressed; NULL: there is no room for it, or the like. */
static char *pack(const struct place *p) {
    char *packed = NULL;
    struct err err = {0};
    if (agent_packed(&p->s->factory->installed, p->sha256, &packed, &err) < 0) {
        log_warning("%s goes to sandboxes uncompressed: %s", p->agent->name, err.msg);
    }
    return packed;
}

/* 1: it is there and runs. 0: it does not run there. */
static int send_surely(struct place *p, struct err *err) {
    AUTO_FREE char *packed = pack(p);
    AUTO_FREE char *to = mem_printf("%s.gz", p->path);
    int r = to ? EXIT_DIGEST : err_set(err, ERR_NOMEM, "out of memory");
    session_say(p->s, NULL, "sending %s %s", p->agent->name, p->wanted);
    for (int i = 0; i < SEND_ATTEMPTS && (r == EXIT_DIGEST || r == EXIT_UNPACK); i++) {
        bool whole = i > 0 || !packed;
        p->packed = whole ? NULL : to;
        r = send(p, whole ? NULL : packed, err);
    }
    p->packed = NULL;
    if (r == EXIT_DIGEST) {
        return ERR_SYS;
    }
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    r = take(p->s, sv_from(p->wanted), sv_from(p->path), err);
    return r < 0 ? r : 1;
}

/* --- by its installer --- */

static int install_once(const struct place *p, const char *text, deadline_ms until, bool *again,
                        struct err *err) {
    double left_s = (double)deadline_left_ms(until) / 1000;
    AUTO_FREE char *home = mem_printf("HOME=%s", sandbox_home(p->s->sandbox));
    const char *const env[] = {home, NULL};
    struct sandbox_output out = {0};
    *again = false;
    if (left_s <= 0) {
        return err_set(err, ERR_TIMEOUT, "no time is left to install %s", p->agent->name);
    }
    int r = home ? sandbox_exec(p->s->sandbox,
                                &(struct sandbox_exec){.shell = text,
                                                       .env = env,
                                                       .timeout_s = fmin(left_s, INSTALL_S),
                                                       .cancel = p->s->stop},
                                &out, err)
                 : err_set(err, ERR_NOMEM, "out of memory");
    if (r >= 0) {
        r = installer_judge(&(struct installer_end){.agent = p->agent->name,
                                                    .exit_code = out.exit_code,
                                                    .timed_out = out.timed_out,
                                                    .out = buf_sv(&out.out),
                                                    .err = buf_sv(&out.err)},
                            again, err);
    }
    sandbox_output_deinit(&out);
    return r;
}

static int install(const struct place *p, struct err *err) {
    AUTO_FREE char *text = NULL;
    deadline_ms until = session_deadline(p->s, ROLLOUT_PHASE_INSTALL);
    double backoff_s = INSTALL_BACKOFF_S;
    int r = installer_command(p->agent->installer, p->wanted, &text, err);
    bool again = r == 0;
    for (int n = 1; again; n++) {
        session_say(p->s, NULL, "installing %s %s inside (attempt %d of %d)", p->agent->name,
                    p->wanted ? p->wanted : LATEST, n, INSTALL_ATTEMPTS);
        r = install_once(p, text, until, &again, err);
        again = again && n < INSTALL_ATTEMPTS;
        if (again) {
            struct err stopped = {0};
            if (cancel_sleep(p->s->stop, deadline_min(until, deadline_in_s(backoff_s)), &stopped) <
                0) {
                return err_set(err, stopped.code, "%s", stopped.msg);
            }
            backoff_s *= 2;
        }
    }
    return r;
}

/* --- all of it --- */

static int place(struct place *p, struct err *err) {
    const struct rollout_factory *f = p->s->factory;
    char machine[64] = "";
    int r = f->installed.program ? digest_of(&f->installed, p->sha256, err) : 0;
    r = r < 0 ? r : find(p, machine, err);
    if (r != 0) {
        return r;
    }
    if (f->installed.program && fits(machine)) {
        r = send_surely(p, err);
        if (r != 0) {
            return r;
        }
    }
    if (!p->agent->installer) {
        return err_set(err, ERR_ENVIRONMENT, "%s is not in the image, and can't be installed there",
                       p->agent->name);
    }
    r = install(p, err);
    r = r < 0 ? r : find(p, machine, err);
    return r == 0 ? err_set(err, ERR_ENVIRONMENT, "%s: its installer left no version '%s' at '%s'",
                            p->agent->name, p->wanted ? p->wanted : LATEST, p->path)
                  : r;
}

int session_place_agent(struct rollout_session *s, struct err *err) {
    const struct rollout_factory *f = s->factory;
    if (!f->agent->mount_path) {
        return 0;
    }
    const char *asked = f->o.config->opencode_version;
    bool latest = asked && strcmp(asked, LATEST) == 0;
    AUTO_FREE char *path = mem_printf("%s%s", sandbox_home(s->sandbox), f->agent->home_path);
    struct place p = {.s = s,
                      .agent = f->agent,
                      .wanted = f->installed.version ? f->installed.version
                                : latest             ? NULL
                                : asked              ? asked
                                                     : f->agent->default_version,
                      .path = path};
    int r = path ? place(&p, err) : err_set(err, ERR_NOMEM, "out of memory");
    return r < 0 ? r : 0;
}
