/* SPDX-License-Identifier: MIT */
#include "support/checked.h"

#include "wait/checked.h"
#include "wait/futex.h"
#include "wait/lock.h"

#if SENNIT_CHECKED

static struct sn_lock outer = SN_LOCK_INIT(SN_RANK_TEST_OUTER);
static struct sn_lock inner = SN_LOCK_INIT(SN_RANK_TEST_INNER);

void checked_take_outer(void)
{
	sn_lock(&outer);
}

void checked_release_outer(void)
{
	sn_unlock(&outer);
}

void checked_take_inner(void)
{
	sn_lock(&inner);
}

void checked_release_inner(void)
{
	sn_unlock(&inner);
}

void checked_take_nameless(void)
{
	static struct sn_lock nameless;

	sn_lock(&nameless);
}

void checked_sleep(long long deadline)
{
	static _Atomic uint32_t word;

	sn_futex_wait(&word, 0, deadline);
}

int checked_sees_calls(void)
{
	return sn_checked_sees_calls();
}

void checked_forbid(const char *name)
{
	sn_checked_thread(name);
}

void checked_log(void)
{
	sn_log("a line");
}

void checked_pass(void)
{
	sn_checked_pass();
}

void checked_pass_end(void)
{
	sn_checked_pass_end();
}

#endif
