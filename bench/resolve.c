/* SPDX-License-Identifier: MIT */
/*
 * How late tasks return from name lookups when the name service does not answer:
 *
 *	bench-resolve [tasks, default 500] [names that hang, default 20]
 *
 * Half of the tasks ask for names that hang, each with a deadline of 50 to 1,050 ms; prints how
 * long after the deadline they continued. The others ask for names that are answered after 2 ms,
 * one after the other; prints how long that took, with and without the names that hang. The name
 * service is this program's own getaddrinfo(), which the library calls instead of libc's.
 */
#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "check.h"

#define MS 1000000
#define MOST_TASKS 10000
#define LOOKUPS 20 /* of each task whose names are answered */

static int tasks = 500, hanging = 20;
static _Atomic int next_sample;
static int64_t samples[MOST_TASKS * LOOKUPS];

int getaddrinfo(const char *restrict host, const char *restrict service,
		const struct addrinfo *restrict hints, struct addrinfo **restrict list)
{
	(void)service;
	*list = NULL;
	if (hints && hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME; /* one that is not looked up */
	if (strncmp(host, "hangs", 5) == 0)
		sleep(3);
	else
		usleep(2000);
	return EAI_NONAME;
}

static void ask(const char *kind, int number, int64_t deadline, bool late)
{
	sn_resolved *answer = NULL;
	const int64_t begin = sn_now();
	char name[64];
	int err;

	snprintf(name, sizeof name, "%s%d.test", kind, number);
	err = sn_resolve(&answer, name, "80", 0, deadline);
	CHECK(late ? err == -ETIMEDOUT : err < 0 && err != -ETIMEDOUT);
	samples[atomic_fetch_add(&next_sample, 1)] = sn_now() - (late ? deadline : begin);
}

static int ask_what_hangs(void *arg)
{
	const int number = (int)(intptr_t)arg;

	ask("hangs", number % hanging, sn_after((int64_t)(50 + number * 37 % 1000) * MS), true);
	return 0;
}

static int ask_what_answers(void *arg)
{
	for (int i = 0; i < LOOKUPS; i++)
		ask("answers", (int)(intptr_t)arg * LOOKUPS + i, SN_NO_DEADLINE, false);
	return 0;
}

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void run(const char *what, sn_fn *fn, int count)
{
	sn_scope *scope;
	int n;

	next_sample = 0;
	CHECK(sn_scope_open(&scope, SN_NO_DEADLINE) == 0);
	for (int i = 0; i < count; i++)
		CHECK(sn_scope_go(scope, fn, (void *)(intptr_t)i) == 0);
	CHECK(sn_scope_close(scope) == 0);
	n = next_sample;
	qsort(samples, (size_t)n, sizeof samples[0], compare);
	printf("%-44s median %7.3f  p99 %7.3f  longest %7.3f ms\n", what, samples[n / 2] / 1e6,
	       samples[n * 99 / 100] / 1e6, samples[n - 1] / 1e6);
}

static int hang(void *arg)
{
	sn_resolved *answer;
	char name[64];

	snprintf(name, sizeof name, "hangs%d.test", (int)(intptr_t)arg);
	CHECK(sn_resolve(&answer, name, "80", 0, SN_NO_DEADLINE) < 0);
	return 0;
}

static int body(void *arg)
{
	(void)arg;
	run("after the deadline, of names that hang", ask_what_hangs, tasks / 2);
	sn_sleep((int64_t)3500 * MS); /* until no lookup hangs */
	run("names that are answered, alone", ask_what_answers, tasks / 2);
	for (int i = 0; i < hanging; i++)
		CHECK(sn_go(hang, (void *)(intptr_t)i) == 0);
	run("names that are answered, beside those that hang", ask_what_answers, tasks / 2);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		tasks = atoi(argv[1]);
	if (argc > 2)
		hanging = atoi(argv[2]);
	CHECK(tasks > 1 && tasks <= MOST_TASKS && hanging > 0);
	return sn_run(body, NULL) < 0;
}
