/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/inside_program.h"

#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/digest.h"
#include "sandbox/state.h"

#define PROGRAM_MAX (64u << 20) /* 5.5 MB; under 64 with debugging information. */
#define GZIP_WINDOW (15 + 16)   /* zlib's words for: the largest window, and gzip's frame. */
#define LOOK_S 30
#define UNPACK_S 60
#define SEND_ATTEMPTS 2 /* A digest that differs is a transfer that went wrong. */
#define EXIT_DIGEST 5

/* Where images may have it; the first is ours from an earlier start. */
static const char find[] =
    "for p in \"$DIR/snaffle-gateway\" /opt/snaffle/bin/snaffle-gateway "
    "/opt/snaffle/snaffle-gateway /usr/local/bin/snaffle-gateway /usr/bin/snaffle-gateway; do\n"
    "  [ -x \"$p\" ] && [ \"$(\"$p\" --version 2>/dev/null)\" = \"snaffle-gateway $VERSION\" ] && "
    "{ printf %s \"$p\"; exit 0; }\n"
    "done\n"
    "mkdir -p \"$DIR\"\n";

static const char unpack[] =
    "set -e; cd \"$DIR\"\n"
    "gunzip -c <snaffle-gateway.gz >new\n"
    "if command -v sha256sum >/dev/null; then sum=$(sha256sum <new)\n"
    "else sum=$(openssl dgst -sha256 -r <new); fi\n"
    "[ \"${sum%% *}\" = \"$SHA256\" ] || { echo \"its digest is ${sum%% *}\" >&2; exit 5; }\n"
    "chmod 755 new; mv -f new snaffle-gateway; rm -f snaffle-gateway.gz\n"
    "./snaffle-gateway --version >/dev/null\n";

/* --- on this machine --- */

static int pack(const struct buf *bytes, struct buf *out, struct err *err) {
    z_stream z = {0};
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, MAX_MEM_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    uLong bound = deflateBound(&z, bytes->len);
    int r = buf_reserve(out, bound);
    if (r == 0) {
        z.next_in = (Bytef *)bytes->data;
        z.avail_in = (uInt)bytes->len;
        z.next_out = (Bytef *)out->data;
        z.avail_out = (uInt)bound;
        r = deflate(&z, Z_FINISH) == Z_STREAM_END ? 0 : ERR_INTERNAL;
        out->len = bound - z.avail_out;
    }
    deflateEnd(&z);
    return r < 0 ? err_set(err, r, "cannot compress the gateway's program") : 0;
}

/* Once for all sessions. Under the factory's lock. */
static int load_locked(struct rollout_factory *f, struct err *err) {
    AUTO_FREE char *path = NULL;
    AUTO_BUF struct buf bytes = {0};
    if (f->gateway_gz.len > 0) {
        return 0;
    }
    int r = state_gateway(&path, err);
    r = r < 0 ? r : file_read(path, PROGRAM_MAX, &bytes, err);
    if (r < 0) {
        return r;
    }
    return digest_hex(bytes.data, bytes.len, f->gateway_sha256) < 0
               ? err_set(err, ERR_INTERNAL, "cannot make the digest of '%s'", path)
               : pack(&bytes, &f->gateway_gz, err);
}

static int load(struct rollout_factory *f, struct err *err) {
    pthread_mutex_lock(&f->lock);
    int r = load_locked(f, err);
    pthread_mutex_unlock(&f->lock);
    return r;
}

/* --- inside --- */

static int run(struct rollout_session *s, const char *dir, const char *text, double timeout_s,
               struct sandbox_output *out, struct err *err) {
    AUTO_FREE char *where = mem_printf("DIR=%s", dir);
    AUTO_FREE char *digest = mem_printf("SHA256=%s", s->factory->gateway_sha256);
    const char *const env[] = {where, digest, "VERSION=" SNAFFLE_VERSION, NULL};
    if (!where || !digest) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return sandbox_exec(s->sandbox,
                        &(struct sandbox_exec){.shell = text,
                                               .env = env,
                                               .clean = true,
                                               .cwd = "/",
                                               .timeout_s = timeout_s,
                                               .cancel = s->stop},
                        out, err);
}

/* Gives the exit code of `unpack`. */
static int send(struct rollout_session *s, const char *dir, struct err *err) {
    AUTO_FREE char *packed = mem_printf("%s/snaffle-gateway.gz", dir);
    struct sandbox_output out = {0};
    if (!packed) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = sandbox_write_file(s->sandbox, packed, buf_sv(&s->factory->gateway_gz), 0644, err);
    r = r < 0 ? r : run(s, dir, unpack, UNPACK_S, &out, err);
    if (r >= 0 && out.exit_code != 0) {
        (void)err_set(err, ERR_SYS, "the gateway's program does not run inside (exit %d): %.300s",
                      out.exit_code, buf_cstr(&out.err));
    }
    r = r < 0 ? r : out.exit_code;
    sandbox_output_deinit(&out);
    return r;
}

static int send_surely(struct rollout_session *s, const char *dir, struct err *err) {
    int r = load(s->factory, err);
    if (r < 0) {
        return r;
    }
    r = EXIT_DIGEST;
    for (int n = 0; n < SEND_ATTEMPTS && r == EXIT_DIGEST; n++) {
        r = send(s, dir, err);
    }
    return r > 0 ? ERR_SYS : r;
}

int inside_program_place(struct rollout_session *s, char **out, struct err *err) {
    AUTO_FREE char *dir = mem_printf("%s/proxy", sandbox_home(s->sandbox));
    AUTO_FREE char *program = NULL;
    struct sandbox_output found = {0};
    if (!dir) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = run(s, dir, find, LOOK_S, &found, err);
    if (r >= 0 && found.exit_code != 0) {
        r = err_set(err, ERR_SYS, "cannot make '%s' inside: %.200s", dir, buf_cstr(&found.err));
    } else if (r >= 0 && found.out.len > 0) {
        program = mem_strdup(buf_cstr(&found.out));
    } else if (r >= 0) {
        program = mem_printf("%s/snaffle-gateway", dir);
        r = send_surely(s, dir, err);
    }
    sandbox_output_deinit(&found);
    if (r >= 0 && !program) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    if (r >= 0) {
        *out = TAKE(program);
    }
    return r < 0 ? r : 0;
}
