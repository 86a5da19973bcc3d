/* SPDX-License-Identifier: MIT */
/*
 * A file that gets its name when it is complete. Used for traces and profiles that are written
 * without a call.
 *
 * Contract. No reader ever sees an incomplete file under its name, and if the file cannot be
 * written, the earlier one stays. Until it is complete it has a unique name, so that two processes
 * or threads that write the same file do not spoil each other's. The price: if the process is
 * killed while it writes, the partial file stays. Only the owner can read the file, because names
 * of tasks and values of events may be private. A symbolic link with the file's name is replaced,
 * not followed. There is no shared state.
 */
#ifndef SENNIT_DEBUG_NAMED_FILE_H
#define SENNIT_DEBUG_NAMED_FILE_H

#define SN_FILE_NAME_MAX 4000

/* Room for a name with %p replaced. */
#define SN_FILE_PATH_ROOM (SN_FILE_NAME_MAX + 32)

/*
 * Calls write() to write the file; %p in the pattern stands for the process's id. Stores the file's
 * name in path, which has SN_FILE_PATH_ROOM bytes. Returns 0 or a negative errno.
 */
int sn_named_file_write(const char *pattern, int (*write)(int fd), char *path);

#endif
