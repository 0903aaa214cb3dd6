/* Lists all files of a ShaleFS image, and reads every byte of them.
 *
 *     cc shale_tree.c $(pkg-config --cflags --libs shale) -o shale_tree
 *     ./shale_tree image.shale
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <shale.h>

struct walk {
    const shale_image *image;
    const char *path; /* of the directory being listed, with a slash at its end */
    uint64_t byte_count;
    uint64_t file_count;
};

static int fail(const char *what)
{
    fprintf(stderr, "shale_tree: %s: %s\n", what, shale_last_error_text());
    return 1;
}

static int read_file(struct walk *walk, const shale_entry_stat *stat)
{
    char buffer[64 << 10];
    uint64_t offset = 0;
    size_t len;
    do {
        if (shale_read(walk->image, stat->inode, offset, buffer, sizeof buffer, &len) != SHALE_CODE_OK)
            return fail("read");
        offset += len;
    } while (len > 0);
    walk->byte_count += offset;
    walk->file_count++;
    return 0;
}

/* Called for every entry; a result other than 0 ends the listing. */
static int entry(void *context, const char *name, const shale_entry_stat *stat)
{
    struct walk *walk = context;
    size_t len = strlen(walk->path) + strlen(name) + 2;
    char *path = malloc(len);
    int failed = 0;
    if (!path)
        return 1;
    snprintf(path, len, "%s%s", walk->path, name);
    if (S_ISDIR(stat->mode)) {
        struct walk below = *walk;
        strcat(path, "/");
        below.path = path;
        failed = shale_list(walk->image, stat->inode, entry, &below) != SHALE_CODE_OK;
        walk->byte_count = below.byte_count;
        walk->file_count = below.file_count;
    } else if (S_ISREG(stat->mode)) {
        printf("%s %" PRIu64 "\n", path, stat->size);
        failed = read_file(walk, stat);
    } else if (S_ISLNK(stat->mode)) {
        char target[4096];
        size_t target_len;
        failed = shale_readlink(walk->image, stat->inode, target, sizeof target, &target_len)
                 != SHALE_CODE_OK;
        if (!failed)
            printf("%s -> %s\n", path, target);
    } else {
        printf("%s\n", path);
    }
    free(path);
    return failed;
}

int main(int argc, char **argv)
{
    struct walk walk = {.path = ""};
    shale_image *image;
    shale_entry_stat root;
    int failed;
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: shale_tree IMAGE [IDENTITY]\n");
        return 2;
    }
    if (shale_open(argv[1], argv[2], &image) != SHALE_CODE_OK)
        return fail("open");
    walk.image = image;
    failed = shale_stat(image, "", &root) != SHALE_CODE_OK
             || shale_list(image, root.inode, entry, &walk) != SHALE_CODE_OK
             || shale_last_error_code() != SHALE_CODE_OK;
    if (failed)
        fail("list");
    else
        printf("%" PRIu64 " bytes in %" PRIu64 " files\n", walk.byte_count, walk.file_count);
    shale_close(image);
    return failed;
}
