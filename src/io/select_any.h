/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_IO_SELECT_ANY_H
#define SENNIT_IO_SELECT_ANY_H

#include <stddef.h>
#include <stdint.h>

#include <sennit/select.h>

/* sn_select() over cases of every kind. The caller has checked the cases of channels. Called by a
 * task, inside the runtime. Parks. */
int sn_select_any(struct sn_case *cases, size_t n, int64_t deadline);

#endif
