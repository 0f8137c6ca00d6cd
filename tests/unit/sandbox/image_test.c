/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "tests/sandbox/oci.h"
#include "tests/testing.h"

/* Each test has a folder with a state directory, a layout, and a place that nobody may touch. */
struct place {
    char dir[64];
    char *state;
    char *layout;
    char *outside;
};

static int set_up(void **state) {
    struct place *p = calloc(1, sizeof *p);
    struct err err = {0};
    snprintf(p->dir, sizeof p->dir, "/tmp/snaffle-image-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    assert_int_equal(chmod(p->dir, 0755), 0);
    p->state = mem_printf("%s/state", p->dir);
    p->layout = mem_printf("%s/layout", p->dir);
    p->outside = mem_printf("%s/outside", p->dir);
    AUTO_FREE char *victim = mem_printf("%s/victim", p->outside);
    assert_int_equal(mkdir(p->state, 0755) | mkdir(p->layout, 0755) | mkdir(p->outside, 0755), 0);
    assert_ok(file_write(victim, SV("as it was"), 0644, &err), &err);
    *state = p;
    return 0;
}

static int take_down(void **state) {
    struct place *p = *state;
    struct err err = {0};
    assert_ok(file_remove_tree(p->dir, &err), &err);
    free(p->state);
    free(p->layout);
    free(p->outside);
    free(p);
    return 0;
}

static int look(const struct place *p, struct image *out, struct err *err) {
    return image_look(p->state, p->layout, geteuid(), out, err);
}

/* Looks and unpacks. */
static int make(const struct place *p, struct image *out, struct err *err) {
    int r = look(p, out, err);
    r = r < 0 ? r : image_make_ready(p->state, out, DEADLINE_NEVER, NULL, err);
    if (r < 0) {
        image_deinit(out);
    }
    return r;
}

static const struct oci_entry base[] = {
    {'d', "bin/", "", 0},       {'f', "./bin/bash", "a shell", 0755},
    {'f', "etc/old", "old", 0}, {'f', "etc/kept", "kept", 0},
    {'f', "data/one", "1", 0},  {'f', "data/deep/two", "2", 0}};

static void make_image(const struct place *p, const struct oci_entry *upper, size_t n,
                       enum oci_packing packing) {
    struct buf layers[2] = {{0}, {0}};
    oci_layer(base, ARRAY_LEN(base), packing, &layers[0]);
    oci_layer(upper, n, packing, &layers[1]);
    oci_image(p->layout, NULL, layers, 2);
    buf_deinit(&layers[0]);
    buf_deinit(&layers[1]);
}

static bool has(const struct image *i, const char *path, const char *text) {
    struct err err = {0};
    AUTO_BUF struct buf bytes = {0};
    AUTO_FREE char *whole = mem_printf("%s/%s", i->dir, path);
    return file_read(whole, 1 << 20, &bytes, &err) == 0 && strcmp(buf_cstr(&bytes), text) == 0;
}

static bool lacks(const struct image *i, const char *path) {
    struct stat st;
    AUTO_FREE char *whole = mem_printf("%s/%s", i->dir, path);
    return lstat(whole, &st) < 0;
}

static unsigned mode_of(const struct image *i, const char *path) {
    struct stat st;
    AUTO_FREE char *whole = mem_printf("%s/%s", i->dir, path);
    assert_int_equal(lstat(whole, &st), 0);
    assert_int_equal(st.st_uid, geteuid());
    return st.st_mode;
}

static void layers_lie_over_each_other_however_they_are_packed(void **state) {
    struct place *p = *state;
    static const struct oci_entry upper[] = {
        {'f', "etc/.wh.old", "", 0},         {'f', "etc/kept", "changed", 0},
        {'f', "data/mine", "3", 0},          {'f', "data/.wh..wh..opq", "", 0},
        {'f', "data/.wh.mine", "", 0},       {'f', ".wh.nothing", "", 0},
        {'f', "gr\xc3\xbc\xc3\x9f", "x", 0}, {'f', "new/made/by/it", "y", 0}};
    for (int packing = OCI_TAR; packing <= OCI_ZSTD; packing++) {
        struct image i = {0};
        struct err err = {0};
        make_image(p, upper, ARRAY_LEN(upper), (enum oci_packing)packing);
        assert_ok(make(p, &i, &err), &err);
        assert_true(has(&i, "bin/bash", "a shell"));
        assert_true(lacks(&i, "etc/old") && has(&i, "etc/kept", "changed"));
        /* What the same layer adds stays, wherever the marks stand. */
        assert_true(lacks(&i, "data/one") && lacks(&i, "data/deep") && has(&i, "data/mine", "3"));
        assert_true(lacks(&i, "data/.wh..wh..opq") && lacks(&i, "etc/.wh.old"));
        assert_true(has(&i, "gr\xc3\xbc\xc3\x9f", "x") && has(&i, "new/made/by/it", "y"));
        image_deinit(&i);
    }
}

static void things_of_one_kind_give_way_to_those_of_another(void **state) {
    struct place *p = *state;
    struct image i = {0};
    struct err err = {0};
    static const struct oci_entry upper[] = {{'f', "data", "a file now", 0},
                                             {'d', "etc/old", "", 0},
                                             {'f', "etc/old/x", "x", 0},
                                             {'l', "etc/kept", "../data", 0},
                                             {'h', "again", "data", 0}};
    make_image(p, upper, ARRAY_LEN(upper), OCI_GZIP);
    assert_ok(make(p, &i, &err), &err);
    assert_true(has(&i, "data", "a file now") && has(&i, "etc/old/x", "x"));
    assert_true(S_ISLNK(mode_of(&i, "etc/kept")) && has(&i, "again", "a file now"));
    image_deinit(&i);
}

static void everybody_may_read_and_nothing_is_set_id_or_a_device(void **state) {
    struct place *p = *state;
    struct image i = {0};
    struct err err = {0};
    struct stat st;
    static const struct oci_entry upper[] = {
        {'f', "bin/su", "su", 04755}, {'f', "etc/secret", "s", 0600}, {'d', "root", "", 0700},
        {'d', "shared", "", 03777},   {'c', "dev/null", "", 0666},    {'p', "pipe", "", 0666}};
    make_image(p, upper, ARRAY_LEN(upper), OCI_GZIP);
    assert_ok(make(p, &i, &err), &err);
    assert_int_equal(mode_of(&i, "bin/su") & 07777, 0755);
    assert_int_equal(mode_of(&i, "etc/secret") & 07777, 0644);
    assert_int_equal(mode_of(&i, "root") & 07777, 0755);
    assert_int_equal(mode_of(&i, "shared") & 07777, 0755);
    assert_true(lacks(&i, "dev/null") && lacks(&i, "pipe"));
    AUTO_FREE char *su = mem_printf("%s/bin/su", i.dir);
    assert_int_equal(stat(su, &st), 0);
    assert_int_equal(st.st_mtime, 1234567890);
    image_deinit(&i);
}

static void assert_untouched(const struct place *p) {
    struct err err = {0};
    AUTO_BUF struct buf bytes = {0};
    AUTO_FREE char *victim = mem_printf("%s/victim", p->outside);
    assert_ok(file_read(victim, 100, &bytes, &err), &err);
    assert_string_equal(buf_cstr(&bytes), "as it was");
    AUTO_FREE char *out = mem_printf("%s/out", p->outside);
    AUTO_FREE char *above = mem_printf("%s/out", p->dir);
    AUTO_FREE char *state = mem_printf("%s/out", p->state);
    assert_false(file_exists(out) || file_exists(above) || file_exists(state));
}

/* No layer leads out of its folder: it is refused, or what it wants happens inside. */
static void an_evil_layer_reaches_nothing_outside(void **state) {
    struct place *p = *state;
    AUTO_FREE char *victim = mem_printf("%s/victim", p->outside);
    AUTO_FREE char *absolute = mem_printf("%s/out", p->outside);
    const struct {
        struct oci_entry entries[3];
        bool refused;
    } rows[] = {
        {{{'f', "../out", "x", 0}}, true},
        {{{'f', "bin/../../../out", "x", 0}}, true},
        {{{'f', "..", "x", 0}}, true},
        {{{'d', "a/../../out", "", 0}}, true},
        {{{'f', absolute, "x", 0}}, false}, /* Without its slash: below the root. */
        {{{'l', "way", p->outside, 0}, {'f', "way/out", "x", 0}}, true},
        {{{'l', "way", "../outside", 0}, {'f', "way/out", "x", 0}}, true},
        {{{'l', "way", "../../../..", 0}, {'f', "way/out", "x", 0}}, false},
        {{{'l', "way", "/proc/self/cwd", 0}, {'f', "way/out", "x", 0}}, true},
        {{{'l', "way", victim, 0}, {'f', "way", "x", 0}}, false}, /* The link gives way. */
        {{{'h', "way", victim, 0}, {'f', "way", "x", 0}}, true},
        {{{'h', "way", "../../outside/victim", 0}}, true},
        {{{'l', "a", p->outside, 0}, {'h', "way", "a/victim", 0}}, true},
        {{{'l', "a", "/etc", 0}, {'h', "way", "a/passwd", 0}}, true},
        {{{'h', "way", "/", 0}}, true},
        {{{'f', ".wh...", "", 0}}, true},
        {{{'f', ".wh.", "", 0}}, true},
        {{{'f', "a/.wh...", "", 0}}, true},
        {{{'l', "way", p->outside, 0}, {'f', "way/.wh.victim", "", 0}}, false},
        {{{'l', "way", p->outside, 0}, {'f', "way/.wh..wh..opq", "", 0}}, false},
        {{{'l', "loop", "loop", 0}, {'f', "loop/x", "", 0}}, true},
    };
    for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
        struct image i = {0};
        struct err err = {0};
        size_t n = 0;
        while (n < ARRAY_LEN(rows[k].entries) && rows[k].entries[n].path) {
            n++;
        }
        make_image(p, rows[k].entries, n, OCI_TAR);
        int r = make(p, &i, &err);
        if (rows[k].refused ? r != ERR_INPUT : r < 0) {
            fail_msg("row %zu ('%s'): %s", k, rows[k].entries[0].path, err.msg);
        }
        assert_untouched(p);
        image_deinit(&i);
    }
}

/* Marks that a lower layer's link would lead outside are followed inside alone. */
static void a_link_of_a_lower_layer_leads_no_mark_outside(void **state) {
    struct place *p = *state;
    struct image i = {0};
    struct err err = {0};
    const struct oci_entry lower[] = {{'f', "bin/bash", "a shell", 0755},
                                      {'l', "way", p->outside, 0}};
    static const struct oci_entry upper[] = {{'f', "way/.wh.victim", "", 0},
                                             {'f', "way/.wh..wh..opq", "", 0}};
    struct buf layers[2] = {{0}, {0}};
    oci_layer(lower, ARRAY_LEN(lower), OCI_TAR, &layers[0]);
    oci_layer(upper, ARRAY_LEN(upper), OCI_TAR, &layers[1]);
    oci_image(p->layout, NULL, layers, 2);
    assert_err(make(p, &i, &err), ERR_INPUT, &err, "way");
    assert_untouched(p);
    buf_deinit(&layers[0]);
    buf_deinit(&layers[1]);
}

static void the_image_for_this_machine_is_taken(void **state) {
    struct place *p = *state;
    struct image i = {0};
    struct err err = {0};
    static const struct oci_about foreign = {.architecture = "s390x"};
    static const struct oci_about own = {.env = "[\"A=b\", \"PATH=/opt/bin:/bin\", \"bad\", 1]"};
    struct buf layer = {0};
    oci_layer(base, ARRAY_LEN(base), OCI_GZIP, &layer);
    AUTO_FREE char *theirs = oci_manifest(p->layout, &foreign, &layer, 1);
    AUTO_FREE char *ours = oci_manifest(p->layout, &own, &layer, 1);
    AUTO_FREE char *a = oci_index_entry(theirs, "s390x");
    AUTO_FREE char *b = oci_index_entry(ours, oci_machine());
    AUTO_FREE char *inner = mem_printf("{\"manifests\": [%s, %s]}", a, b);
    AUTO_FREE char *nested = oci_blob(p->layout, inner, strlen(inner));
    AUTO_FREE char *only = oci_index_entry(nested, NULL);
    oci_write_index(p->layout, only); /* An index that leads to another. */
    assert_ok(make(p, &i, &err), &err);
    assert_string_equal(i.name, ours);
    assert_int_equal(json_array_size(i.env), 2);
    assert_string_equal(json_string_value(json_array_get(i.env, 1)), "PATH=/opt/bin:/bin");
    image_deinit(&i);
    oci_write_index(p->layout, a);
    assert_err(look(p, &i, &err), ERR_INPUT, &err, "no one image for this machine");
    AUTO_FREE char *bare = oci_index_entry(theirs, NULL);
    oci_write_index(p->layout, bare);
    assert_err(look(p, &i, &err), ERR_INPUT, &err, "is for s390x");
    buf_deinit(&layer);
}

static void a_blob_that_is_not_what_its_name_says_is_refused(void **state) {
    struct place *p = *state;
    struct image i = {0};
    struct err err = {0};
    struct buf layer = {0};
    oci_layer(base, ARRAY_LEN(base), OCI_TAR, &layer);
    oci_image(p->layout, NULL, &layer, 1);
    AUTO_FREE char *digest = oci_blob(p->layout, layer.data, layer.len);
    AUTO_FREE char *path = mem_printf("%s/blobs/sha256/%s", p->layout, digest + strlen("sha256:"));
    layer.data[600] ^= 1;
    assert_ok(file_write(path, buf_sv(&layer), 0644, &err), &err);
    assert_err(make(p, &i, &err), ERR_INPUT, &err, "not what its name says");
    AUTO_FREE char *images = mem_printf("%s/images", p->state);
    assert_int_equal(unlink(path), 0);
    assert_err(make(p, &i, &err), ERR_INPUT, &err, "cannot open the layer");
    AUTO_FREE char *unfinished = mem_printf("%s/unpacking", images);
    assert_false(file_exists(unfinished));
    buf_deinit(&layer);
}

/* Whatever byte it ends at, a layer gives an image or a clear error, and leaves nothing half made.
 */
static void a_layer_cut_at_any_byte_gives_no_half_image(void **state) {
    struct place *p = *state;
    struct buf layer = {0};
    oci_layer(base, 2, OCI_GZIP, &layer);
    size_t whole = layer.len;
    AUTO_FREE char *unfinished = mem_printf("%s/images/unpacking", p->state);
    for (size_t n = 0; n < whole; n++) {
        struct image i = {0};
        struct err err = {0};
        layer.len = n;
        oci_image(p->layout, NULL, &layer, 1);
        int r = make(p, &i, &err);
        assert_true(r == ERR_INPUT || (r == 0 && has(&i, "bin/bash", "a shell")));
        assert_false(file_exists(unfinished));
        image_deinit(&i);
    }
    layer.len = whole;
    buf_deinit(&layer);
}

static void an_index_cut_at_any_byte_is_refused(void **state) {
    struct place *p = *state;
    struct err err = {0};
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *path = mem_printf("%s/index.json", p->layout);
    make_image(p, base, 1, OCI_TAR);
    assert_ok(file_read(path, 1 << 20, &text, &err), &err);
    for (size_t n = 0; n < text.len; n++) {
        struct image i = {0};
        assert_ok(file_write(path, (struct sv){text.data, n}, 0644, &err), &err);
        assert_int_equal(look(p, &i, &err), ERR_INPUT);
    }
}

static void strange_words_in_a_layout_are_refused(void **state) {
    struct place *p = *state;
    static const char *const entries[] = {
        "",
        "1",
        "{}",
        "{\"digest\": 1}",
        "{\"digest\": \"../../outside/victim\"}",
        "[]",
        "{\"digest\": \"sha256:../../../outside/victim\"}",
        "{\"digest\": \"sha512:00\"}",
        "{\"digest\": \"sha256:"
        "0000000000000000000000000000000000000000000000000000000000000000\"}"};
    AUTO_FREE char *blobs = mem_printf("%s/blobs", p->layout);
    assert_int_equal(mkdir(blobs, 0755), 0);
    for (size_t k = 0; k < ARRAY_LEN(entries); k++) {
        struct image i = {0};
        struct err err = {0};
        oci_write_index(p->layout, entries[k]);
        assert_int_equal(look(p, &i, &err), ERR_INPUT);
    }
}

static void a_cancel_ends_the_unpacking(void **state) {
    struct place *p = *state;
    struct image i = {0};
    struct err err = {0};
    struct cancel *cancel = NULL;
    assert_ok(cancel_new(&cancel, &err), &err);
    cancel_throw(cancel);
    make_image(p, base, 1, OCI_TAR);
    assert_ok(look(p, &i, &err), &err);
    assert_int_equal(image_make_ready(p->state, &i, DEADLINE_NEVER, cancel, &err), ERR_CANCELLED);
    assert_false(file_exists(i.dir));
    image_deinit(&i);
    cancel_free(cancel);
}

static void an_image_is_unpacked_once(void **state) {
    struct place *p = *state;
    struct image i = {0};
    struct err err = {0};
    make_image(p, base, 1, OCI_TAR);
    assert_ok(make(p, &i, &err), &err);
    image_deinit(&i);
    assert_ok(look(p, &i, &err), &err);
    AUTO_FREE char *mark = mem_printf("%s/mark", i.dir);
    assert_ok(file_write(mark, SV("m"), 0644, &err), &err);
    assert_ok(image_make_ready(p->state, &i, DEADLINE_NEVER, NULL, &err), &err);
    assert_true(has(&i, "mark", "m"));
    image_deinit(&i);
}

static int look_at(const struct place *p, const char *path, struct image *i, struct err *err) {
    return image_look(p->state, path, geteuid(), i, err);
}

static void a_folder_is_a_system_if_it_has_a_shell(void **state) {
    struct place *p = *state;
    struct image i = {0};
    struct err err = {0};
    AUTO_FREE char *victim = mem_printf("%s/victim", p->outside);
    AUTO_FREE char *bin = mem_printf("%s/usr/bin", p->layout);
    AUTO_FREE char *link = mem_printf("%s/bin", p->layout);
    AUTO_FREE char *bash = mem_printf("%s/bash", bin);
    assert_err(look_at(p, "/no/such", &i, &err), ERR_INPUT, &err, "'/no/such'");
    assert_err(look_at(p, victim, &i, &err), ERR_INPUT, &err, "no folder");
    assert_err(look_at(p, "/", &i, &err), ERR_INPUT, &err, "own system");
    assert_err(look_at(p, p->layout, &i, &err), ERR_INPUT, &err, "no /bin/bash");
    assert_ok(file_mkdirs(bin, 0755, &err), &err);
    assert_int_equal(symlink("/usr/bin", link), 0);
    /* The link leads inside, where there is none yet, and not to the host's own. */
    assert_err(look_at(p, p->layout, &i, &err), ERR_INPUT, &err, "no /bin/bash");
    assert_ok(file_write(bash, SV("a shell"), 0755, &err), &err);
    assert_ok(look_at(p, p->layout, &i, &err), &err);
    assert_string_equal(i.dir, p->layout);
    assert_string_equal(i.name, p->layout);
    assert_null(i.env);
    assert_ok(image_make_ready(p->state, &i, DEADLINE_NEVER, NULL, &err), &err);
    image_deinit(&i);
    assert_int_equal(chmod(p->dir, 0700), 0);
    assert_err(image_look(p->state, p->layout, geteuid() + 1, &i, &err), ERR_ENVIRONMENT, &err,
               "chmod o+x");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, take_down)

static const struct CMUnitTest tests[] = {
    CASE(layers_lie_over_each_other_however_they_are_packed),
    CASE(things_of_one_kind_give_way_to_those_of_another),
    CASE(everybody_may_read_and_nothing_is_set_id_or_a_device),
    CASE(an_evil_layer_reaches_nothing_outside),
    CASE(a_link_of_a_lower_layer_leads_no_mark_outside),
    CASE(the_image_for_this_machine_is_taken),
    CASE(a_blob_that_is_not_what_its_name_says_is_refused),
    CASE(a_layer_cut_at_any_byte_gives_no_half_image),
    CASE(an_index_cut_at_any_byte_is_refused),
    CASE(strange_words_in_a_layout_are_refused),
    CASE(a_cancel_ends_the_unpacking),
    CASE(an_image_is_unpacked_once),
    CASE(a_folder_is_a_system_if_it_has_a_shell),
};

RUN_TESTS(tests)
