/* SPDX-License-Identifier: MIT */
#include "sched/runtime.h"

struct sn_runtime sn_runtime = {.lock = SN_LOCK_INIT(SN_RANK_RUNTIME)};
