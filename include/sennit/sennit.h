/* SPDX-License-Identifier: MIT */
/* The whole C interface. */
#ifndef SENNIT_SENNIT_H
#define SENNIT_SENNIT_H

#include <sennit/base.h>
#include <sennit/blocking.h>
#include <sennit/channel.h>
#include <sennit/clock.h>
#include <sennit/copy.h>
#include <sennit/run.h>
#include <sennit/scope.h>
#include <sennit/signal.h>
#include <sennit/stream.h>
#include <sennit/task.h>
#include <sennit/tcp.h>
#include <sennit/vdso.h>

#endif
