/* SPDX-License-Identifier: MIT */
/*
 * A file that gets its name when it is complete. Used for traces and profiles that are written
 * without a call.
 *
 * Nobody ever reads a part of such a file, and if it cannot be written the earlier one stays. Until
 * it is complete it has a unique name, so that two processes or threads that write the same file do
 * not spoil each other's. The price: if the process is killed while it writes, the partial file
 * stays. Only the owner can read the file, because names of tasks and values of events may be
 * private. A symbolic link in its place is replaced, not followed.
 */
#ifndef SENNIT_DEBUG_NAMED_FILE_H
#define SENNIT_DEBUG_NAMED_FILE_H

#define SN_FILE_NAME_MAX 4000

/* Room for a name with %p replaced. */
#define SN_FILE_PATH_ROOM (SN_FILE_NAME_MAX + 32)

/*
 * Calls write() to write the file; %p in the pattern stands for the process's id. path, with
 * SN_FILE_PATH_ROOM bytes, gets its name. 0, or a negative errno.
 */
int sn_named_file_write(const char *pattern, int (*write)(int fd), char *path);

#endif
