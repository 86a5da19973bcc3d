/* SPDX-License-Identifier: MIT */
/* hiredis: WHERE is a port. */
#include <hiredis/hiredis.h>
#include <sys/time.h>
#include <time.h>

#include "crowd.h"

/* The prefix of this run's keys, because the server may keep those of an earlier run. */
static char run[40];

static int fail(redisContext *context, const char *what)
{
	fprintf(stderr, "%s: %s\n", what, context ? context->errstr : "no context");
	if (context)
		redisFree(context);
	return 1;
}

static int expect(redisContext *context, redisReply *reply, int type, long long value)
{
	const int right = reply && reply->type == type &&
			  (type != REDIS_REPLY_INTEGER || reply->integer == value);

	(void)context;
	if (reply)
		freeReplyObject(reply);
	return right;
}

static int work(const struct crowd *crowd, int number)
{
	const struct timeval limit = {60, 0};
	redisContext *context =
		number % 2 ? redisConnect("127.0.0.1", atoi(crowd->where))
			   : redisConnectWithTimeout("127.0.0.1", atoi(crowd->where), limit);

	if (!context || context->err)
		return fail(context, "connect");
	if (number % 2 == 0 && redisSetTimeout(context, limit) != REDIS_OK)
		return fail(context, "timeout");
	for (int i = 1; i <= 3; i++) {
		/* No element comes, so this takes as long as its timeout. */
		if (!expect(context, redisCommand(context, "BLPOP %s-list-%d 0.1", run, number),
			    REDIS_REPLY_NIL, 0))
			return fail(context, "BLPOP");
		if (!expect(context, redisCommand(context, "INCR %s-count-%d", run, number),
			    REDIS_REPLY_INTEGER, i))
			return fail(context, "INCR");
	}
	redisFree(context);
	return 0;
}

int main(int argc, char **argv)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(run, sizeof run, "%lld.%09ld", (long long)now.tv_sec, now.tv_nsec);
	return crowd_main(argc, argv, (struct crowd){.job = work});
}
