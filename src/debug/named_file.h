/* SPDX-License-Identifier: MIT */
/*
 * A file that takes its name when it is whole: traces and profiles that are written without a call.
 *
 * So nobody finds a part of it, and one that cannot be written leaves the earlier one. Until then
 * it has a name of its own, so that processes with the same name for the file, and two threads that
 * write one at the same time, do not spoil each other's. The price: what a process leaves that is
 * killed meanwhile stays there. It is readable for its owner only: names of tasks and the values of
 * events may be nobody else's business. A symbolic link in its place is replaced, not followed.
 */
#ifndef SENNIT_DEBUG_NAMED_FILE_H
#define SENNIT_DEBUG_NAMED_FILE_H

#define SN_FILE_NAME_MAX 4000

/* Room for a name with %p replaced. */
#define SN_FILE_PATH_ROOM (SN_FILE_NAME_MAX + 32)

/*
 * Has write() write the file; %p in the pattern stands for the process's id. path, with
 * SN_FILE_PATH_ROOM: its name. 0, or a negative errno.
 */
int sn_named_file_write(const char *pattern, int (*write)(int fd), char *path);

#endif
