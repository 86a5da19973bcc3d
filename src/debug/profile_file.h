/* SPDX-License-Identifier: MIT */
/* The profile of a whole run that is written without a call: SENNIT_PROFILE, see
 * <sennit/profile.h>. */
#ifndef SENNIT_DEBUG_PROFILE_FILE_H
#define SENNIT_DEBUG_PROFILE_FILE_H

/* Reads the environment: 0, or -EINVAL after a line on stderr. */
int sn_profile_file_init(void);

/* The run's first task is about to begin; it has returned, and the threads are still there. Each
 * says on stderr what was written, or why not. */
void sn_profile_file_begin(void);
void sn_profile_file_end(void);

#endif
