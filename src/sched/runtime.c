/* SPDX-License-Identifier: MIT */
#include "sched/runtime.h"

struct sn_runtime sn_runtime;
