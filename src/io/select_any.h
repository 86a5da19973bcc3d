/* SPDX-License-Identifier: MIT */
/*
 * Select over cases of every kind: channels, times, tasks, descriptors and scopes.
 *
 * Contract. Exactly one case is done, or none if the result is an error; select_any.c argues that.
 * All cases that are found ready have the same chance. The cases and what they refer to belong to
 * the caller; nothing refers to them once the call has returned. More than eight cases need memory
 * of malloc()'s for the call. Select over channels alone, which plain threads may do, too, is
 * sync/select.c; it comes here by a hook that run/run.c sets, because this file needs descriptors,
 * which are above channels.
 *
 * Nothing is shared: the state of a select is on the stack of its task, or in memory that only the
 * task has.
 */
#ifndef SENNIT_IO_SELECT_ANY_H
#define SENNIT_IO_SELECT_ANY_H

#include <stddef.h>
#include <stdint.h>

#include <sennit/select.h>

/* sn_select() over cases of every kind. The caller has checked the cases of channels. Called by a
 * task, inside the runtime. May park, unless the deadline is SN_TRY. */
int sn_select_any(struct sn_case *cases, size_t n, int64_t deadline);

#endif
