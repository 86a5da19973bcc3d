/* SPDX-License-Identifier: MIT */
/*
 * A hooked task asks the name service, whose module (database_module.c) sleeps. Prints what became
 * of that hooked call, and of one that the task makes itself afterwards. database_test.sh says what
 * is right.
 */
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include <sennit/hooks.h>
#include <sennit/sennit.h>

static struct sn_hooks_stats counted(void)
{
	struct sn_hooks_stats stats = SN_HOOKS_STATS_INIT();

	sn_hooks_stats(&stats);
	return stats;
}

static void print(const char *what, const struct sn_hooks_stats *before)
{
	const struct sn_hooks_stats after = counted();

	printf("%s: parked %llu, held %llu\n", what,
	       (unsigned long long)(after.parked - before->parked),
	       (unsigned long long)(after.passed_held - before->passed_held));
}

static int first(void *arg)
{
	struct sn_hooks_stats before = counted();
	const struct passwd *user = getpwnam("anyone");

	(void)arg;
	if (!user || user->pw_uid != 4711) {
		fprintf(stderr, "the module was not asked\n");
		return 1;
	}
	print("in the module", &before);
	before = counted();
	usleep(1000);
	print("afterwards", &before);
	return 0;
}

int main(void)
{
	/* In place of a line in /etc/nsswitch.conf. Not in a header. */
	extern int __nss_configure_lookup(const char *database, const char *services);

	if (__nss_configure_lookup("passwd", "sennit") < 0)
		return 2;
	return sn_run(first, NULL);
}
