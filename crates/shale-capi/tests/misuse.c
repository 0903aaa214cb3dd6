/* Calls with null pointers, small buffers, wrong kinds and wrong files, and one handle used by
 * several threads. Arguments: an image with the file `d/text` of 3000 bytes and the link `symlink`
 * to it, a file that is not an image, and an empty directory. */

#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <shale.h>

#define THREADS 8

static shale_image *image;

static int stop_at_once(void *context, const char *name, const shale_entry_stat *stat)
{
    (void)name;
    (void)stat;
    ++*(int *)context;
    return 1;
}

static void *read_all(void *context)
{
    unsigned char expected[3000], found[3000];
    shale_entry_stat stat;
    size_t len;
    (void)context;
    assert(shale_last_error_code() == SHALE_CODE_OK);
    assert(shale_stat(image, "d/text", &stat) == SHALE_CODE_OK && stat.size == sizeof expected);
    assert(shale_read(image, stat.inode, 0, expected, sizeof expected, &len) == SHALE_CODE_OK);
    assert(len == sizeof expected);
    for (size_t at = 0; at < sizeof found; at += 100) {
        assert(shale_read(image, stat.inode, at, found + at, 100, &len) == SHALE_CODE_OK);
        assert(len == 100);
    }
    assert(memcmp(expected, found, sizeof found) == 0);
    return NULL;
}

int main(int argc, char **argv)
{
    shale_entry_stat stat;
    pthread_t threads[THREADS];
    char buffer[16];
    size_t len;
    int count = 0;
    assert(argc == 4);
    assert(strlen(shale_version()) >= 5);
    assert(shale_last_error_code() == SHALE_CODE_OK && *shale_last_error_text() == 0);

    assert(shale_open(NULL, NULL, &image) == SHALE_CODE_ARGUMENT && image == NULL);
    assert(strstr(shale_last_error_text(), "path"));
    assert(shale_open(argv[1], NULL, NULL) == SHALE_CODE_ARGUMENT);
    assert(shale_open(argv[1], "12", &image) == SHALE_CODE_ARGUMENT && image == NULL);
    assert(shale_open("/no/such/image", NULL, &image) == SHALE_CODE_NOT_FOUND);
    assert(shale_open(argv[2], NULL, &image) == SHALE_CODE_NOT_IMAGE);
    assert(shale_last_error_code() == SHALE_CODE_NOT_IMAGE);
    assert(shale_open(argv[1], "0000000000000000000000000000000000000000000000000000000000000000",
                      &image)
           == SHALE_CODE_IDENTITY);
    assert(image == NULL);
    shale_close(NULL);

    assert(shale_open(argv[1], NULL, &image) == SHALE_CODE_OK && image != NULL);
    assert(shale_stat(NULL, "", &stat) == SHALE_CODE_ARGUMENT);
    assert(shale_stat(image, NULL, &stat) == SHALE_CODE_ARGUMENT);
    assert(shale_stat(image, "", NULL) == SHALE_CODE_ARGUMENT);
    assert(shale_stat(image, "d/missing", &stat) == SHALE_CODE_NOT_FOUND);
    assert(strstr(shale_last_error_text(), "d/missing"));
    assert(shale_stat(image, "/d/../", &stat) == SHALE_CODE_OK && stat.inode == 1);
    assert(shale_list(image, 1, NULL, NULL) == SHALE_CODE_ARGUMENT);
    assert(shale_list(image, 1, stop_at_once, &count) == SHALE_CODE_OK && count == 1);
    assert(shale_read(image, 1, 0, buffer, sizeof buffer, &len) == SHALE_CODE_WRONG_KIND && len == 0);
    assert(shale_read(image, 999999, 0, buffer, sizeof buffer, &len) == SHALE_CODE_NOT_FOUND);

    assert(shale_stat(image, "d/text", &stat) == SHALE_CODE_OK);
    assert(shale_list(image, stat.inode, stop_at_once, &count) == SHALE_CODE_NOT_DIRECTORY);
    assert(shale_read(image, stat.inode, 0, NULL, 1, &len) == SHALE_CODE_ARGUMENT);
    assert(shale_read(image, stat.inode, 0, buffer, 1, NULL) == SHALE_CODE_ARGUMENT);
    assert(shale_read(image, stat.inode, 0, buffer, (size_t)-1, &len) == SHALE_CODE_ARGUMENT);
    assert(shale_read(image, stat.inode, 0, NULL, 0, &len) == SHALE_CODE_OK && len == 0);
    assert(shale_read(image, stat.inode, 2990, buffer, sizeof buffer, &len) == SHALE_CODE_OK && len == 10);
    assert(shale_read(image, stat.inode, UINT64_MAX, buffer, sizeof buffer, &len) == SHALE_CODE_OK);
    assert(len == 0);
    assert(shale_readlink(image, stat.inode, buffer, sizeof buffer, &len) == SHALE_CODE_WRONG_KIND);

    assert(shale_stat(image, "symlink", &stat) == SHALE_CODE_OK && stat.size == 6);
    assert(shale_readlink(image, stat.inode, buffer, 6, &len) == SHALE_CODE_RANGE && len == 6);
    assert(shale_readlink(image, stat.inode, NULL, 0, &len) == SHALE_CODE_RANGE && len == 6);
    assert(shale_readlink(image, stat.inode, buffer, 7, &len) == SHALE_CODE_OK && len == 6);
    assert(strcmp(buffer, "d/text") == 0);

    for (int n = 0; n < THREADS; n++)
        assert(pthread_create(&threads[n], NULL, read_all, NULL) == 0);
    for (int n = 0; n < THREADS; n++)
        assert(pthread_join(threads[n], NULL) == 0);

    assert(shale_extract(NULL, "d", argv[3]) == SHALE_CODE_ARGUMENT);
    assert(shale_extract(image, "d", NULL) == SHALE_CODE_ARGUMENT);
    assert(shale_extract(image, "missing", argv[3]) == SHALE_CODE_NOT_FOUND);
    assert(shale_extract(image, "d*", argv[3]) == SHALE_CODE_NOT_FOUND);
    assert(shale_extract(image, "/d", argv[3]) == SHALE_CODE_OK);
    assert(shale_extract(image, "d", argv[3]) == SHALE_CODE_EXISTS);
    assert(*shale_last_error_text() != 0);
    shale_close(image);
    return 0;
}
