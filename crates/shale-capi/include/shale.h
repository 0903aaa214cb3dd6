/* libshale: read ShaleFS images from C. MIT OR Apache-2.0.
 *
 * Made by cbindgen from crates/shale-capi/src; do not edit. */

#ifndef SHALE_H
#define SHALE_H

#include <stddef.h>
#include <stdint.h>

/**
 * The result of a function.
 */
enum shale_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Success.
   */
  SHALE_CODE_OK = 0,
  /**
   * An argument is not valid: a null pointer, or a text that cannot be parsed.
   */
  SHALE_CODE_ARGUMENT = 1,
  /**
   * The file, path or inode does not exist.
   */
  SHALE_CODE_NOT_FOUND = 2,
  /**
   * The inode is not a directory.
   */
  SHALE_CODE_NOT_DIRECTORY = 3,
  /**
   * The function does not apply to this kind of inode.
   */
  SHALE_CODE_WRONG_KIND = 4,
  /**
   * The buffer is too small.
   */
  SHALE_CODE_RANGE = 5,
  /**
   * The file is not a ShaleFS image, or its version is not supported.
   */
  SHALE_CODE_NOT_IMAGE = 6,
  /**
   * The image does not have the expected identity.
   */
  SHALE_CODE_IDENTITY = 7,
  /**
   * The image is damaged.
   */
  SHALE_CODE_DAMAGED = 8,
  /**
   * A system call failed.
   */
  SHALE_CODE_SYSTEM = 9,
  /**
   * A limit was reached, for example of memory.
   */
  SHALE_CODE_LIMIT = 10,
  /**
   * The library failed; please report it.
   */
  SHALE_CODE_BUG = 11,
  /**
   * A file exists already where one would be extracted.
   */
  SHALE_CODE_EXISTS = 12,
  /**
   * Some files could not be extracted as they are in the image; the text names the first.
   */
  SHALE_CODE_PARTIAL = 13,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum shale_code shale_code;
#else
typedef int32_t shale_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * An open image. Only a pointer to it crosses the boundary.
 */
typedef struct shale_image shale_image;

/**
 * The attributes of an inode. New versions of the library may give a meaning to `reserved`, and
 * never change the rest.
 */
typedef struct shale_entry_stat {
  /**
   * Number of the inode, for `shale_read`, `shale_list` and `shale_readlink`. The root is 1.
   */
  uint64_t inode;
  /**
   * File: bytes of content. Directory: number of entries. Symbolic link: bytes of the target.
   */
  uint64_t size;
  /**
   * Number of hard links.
   */
  uint64_t link_count;
  /**
   * Modification time: seconds since 1970, which may be negative.
   */
  int64_t mtime_sec;
  /**
   * Modification time: nanoseconds after `mtime_sec`.
   */
  uint32_t mtime_nsec;
  /**
   * Type and permission bits, as in `st_mode`.
   */
  uint32_t mode;
  /**
   * Owner.
   */
  uint32_t uid;
  /**
   * Group.
   */
  uint32_t gid;
  /**
   * Major number of a device.
   */
  uint32_t device_major;
  /**
   * Minor number of a device.
   */
  uint32_t device_minor;
  /**
   * Zero.
   */
  uint64_t reserved[4];
} shale_entry_stat;

/**
 * Receives one entry of a directory; `name` and `stat` are valid until it returns. Return 0 to go
 * on, anything else to stop. It may call any function of this library, and must not leave through
 * an exception or `longjmp`.
 */
typedef int (*shale_list_callback)(void *context,
                                   const char *name,
                                   const struct shale_entry_stat *stat);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the version of the library, such as `0.1.0`.
 */
const char *shale_version(void);

/**
 * Returns the code of the last call that failed in this thread; `SHALE_CODE_OK` if none did.
 */
shale_code shale_last_error_code(void);

/**
 * Returns the message of the last call that failed in this thread. It is valid until the next call
 * that fails in this thread; an empty text if none did. Never null.
 */
const char *shale_last_error_text(void);

/**
 * Opens the newest snapshot of an image.
 *
 * `expected_identity` is null, or the identity that the image must have, in hexadecimal as
 * `shale info` prints it; then every read is verified against it. Stores a handle in `image`, for
 * `shale_close`; stores null if it fails.
 *
 * # Safety
 * `path` and `expected_identity` are null or end with a zero byte; `image` is null or can be
 * written.
 */
shale_code shale_open(const char *path, const char *expected_identity, struct shale_image **image);

/**
 * Closes an image and frees its handle. Null is allowed. No other call may use the handle during
 * or after this call.
 *
 * # Safety
 * `image` is null or comes from `shale_open` and was not closed.
 */
void shale_close(struct shale_image *image);

/**
 * Looks up a path and stores its attributes in `stat`.
 *
 * The path is relative to the root of the image; slashes at its beginning are ignored, and an
 * empty path is the root. Symbolic links are not followed.
 *
 * # Safety
 * `image` is null or open; `path` is null or ends with a zero byte; `stat` is null or can be
 * written.
 */
shale_code shale_stat(const struct shale_image *image,
                      const char *path,
                      struct shale_entry_stat *stat);

/**
 * Calls `each` with the entries of a directory, in the order of their names. The entries `.` and
 * `..` are not among them. `context` is passed on unchanged.
 *
 * # Safety
 * `image` is null or open; `each` is null or a function that follows the rules of
 * `shale_list_callback`.
 */
shale_code shale_list(const struct shale_image *image,
                      uint64_t directory,
                      shale_list_callback each,
                      void *context);

/**
 * Reads `len` bytes of a regular file from `offset` on into `buffer`, and stores the number of
 * bytes read in `read_len`: fewer than `len` only at the end of the file, 0 beyond it. Every byte
 * is verified before it is returned.
 *
 * # Safety
 * `image` is null or open; `buffer` is null or has room for `len` bytes; `read_len` is null or can
 * be written.
 */
shale_code shale_read(const struct shale_image *image,
                      uint64_t inode,
                      uint64_t offset,
                      void *buffer,
                      size_t len,
                      size_t *read_len);

/**
 * Stores the target of a symbolic link in `buffer`, with a zero byte at its end, and its length
 * without the zero byte in `target_len`. If `size` is too small it fails with `SHALE_CODE_RANGE`,
 * stores the length all the same and leaves `buffer` alone. A target is at most 4095 bytes long.
 *
 * # Safety
 * `image` is null or open; `buffer` is null or has room for `size` bytes; `target_len` is null or
 * can be written.
 */
shale_code shale_readlink(const struct shale_image *image,
                          uint64_t inode,
                          char *buffer,
                          size_t size,
                          size_t *target_len);

/**
 * Extracts a path and everything below it into a directory, which is made if it does not exist.
 *
 * A null or empty `path` is the whole image. Paths below the directory are those in the image.
 * Never replaces a file, and never writes outside of the directory, whatever links lie there or in
 * the image. Restores owners if the process is root.
 *
 * # Safety
 * `image` is null or open; `path` and `directory` are null or end with a zero byte.
 */
shale_code shale_extract(const struct shale_image *image, const char *path, const char *directory);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SHALE_H */
