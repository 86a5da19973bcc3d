/* SPDX-License-Identifier: MIT */
/*
 * The profile of a whole run that is written without a call: SENNIT_PROFILE, see
 * <sennit/profile.h>.
 *
 * Who may write what: all state, the thread of sn_run(), which makes all of these calls.
 */
#ifndef SENNIT_DEBUG_PROFILE_FILE_H
#define SENNIT_DEBUG_PROFILE_FILE_H

/* Reads the environment. Returns 0, or -EINVAL after a line on stderr. */
int sn_profile_file_init(void);

/* The first is called before the first task begins, the second after it has returned, while the
 * threads still exist. They report errors on stderr, and the second also the file that was
 * written. */
void sn_profile_file_begin(void);
void sn_profile_file_end(void);

#endif
