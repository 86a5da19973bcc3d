/* SPDX-License-Identifier: MIT */
/*
 * Hooked tasks ask the name service, whose module (database_module.c) sleeps in each function.
 * Prints what became of the hooked calls within functions of each database, and of one that a task
 * makes itself afterwards. database_test.sh says what is right.
 */
#define _GNU_SOURCE
#include <aliases.h>
#include <gshadow.h>
#include <netdb.h>
#include <netinet/ether.h>
#include <pwd.h>
#include <shadow.h>
#include <stdio.h>
#include <unistd.h>
#include <wordexp.h>

#include <sennit/hooks.h>
#include <sennit/sennit.h>

static char buf[1000];

#define ASKS(name, call)       \
	static void name(void) \
	{                      \
		(void)!(call); \
	}

static struct spwd shadow, *found_shadow;
static struct netent net, *found_net;
static struct protoent protocol, *found_protocol;
static struct ether_addr address;
static wordexp_t words;
static int host_error;

/* clang-format off */
ASKS(by_getpwnam, getpwnam("anyone"))
ASKS(by_getpwent, getpwent())
ASKS(by_getspnam, getspnam("anyone"))
ASKS(by_getspnam_r, getspnam_r("anyone", &shadow, buf, sizeof buf, &found_shadow))
ASKS(by_getsgnam, getsgnam("anyone"))
ASKS(by_getprotobyname, getprotobyname("any"))
ASKS(by_getprotobynumber_r,
     getprotobynumber_r(1, &protocol, buf, sizeof buf, &found_protocol))
ASKS(by_getnetbyname_r, getnetbyname_r("any", &net, buf, sizeof buf, &found_net, &host_error))
ASKS(by_getrpcbyname, getrpcbyname("any"))
ASKS(by_getaliasbyname, getaliasbyname("any"))
ASKS(by_ether_hostton, ether_hostton("any", &address))
ASKS(by_innetgr, innetgr("any", "host", "user", "domain"))
ASKS(by_setservent, (setservent(0), 0))
ASKS(by_getpw, getpw(4711, buf))
ASKS(by_wordexp, wordexp("~anyone", &words, 0))
/* clang-format on */

static void outside(void)
{
	usleep(1000);
}

static const struct {
	const char *name;
	void (*ask)(void);
} functions[] = {
	{"getpwnam", by_getpwnam},
	{"getpwent", by_getpwent},
	{"getspnam", by_getspnam},
	{"getspnam_r", by_getspnam_r},
	{"getsgnam", by_getsgnam},
	{"getprotobyname", by_getprotobyname},
	{"getprotobynumber_r", by_getprotobynumber_r},
	{"getnetbyname_r", by_getnetbyname_r},
	{"getrpcbyname", by_getrpcbyname},
	{"getaliasbyname", by_getaliasbyname},
	{"ether_hostton", by_ether_hostton},
	{"innetgr", by_innetgr},
	{"setservent", by_setservent},
	{"getpw", by_getpw},
	{"wordexp", by_wordexp},
	{"afterwards", outside},
};

static struct sn_hooks_stats counted(void)
{
	struct sn_hooks_stats stats = SN_HOOKS_STATS_INIT();

	sn_hooks_stats(&stats);
	return stats;
}

static int first(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		const struct sn_hooks_stats before = counted();
		struct sn_hooks_stats after;

		functions[i].ask();
		after = counted();
		printf("%s: parked %llu, held %llu\n", functions[i].name,
		       (unsigned long long)(after.parked - before.parked),
		       (unsigned long long)(after.passed_held - before.passed_held));
	}
	return 0;
}

int main(void)
{
	/* In place of lines in /etc/nsswitch.conf. Not in a header. */
	extern int __nss_configure_lookup(const char *database, const char *services);
	static const char *const databases[] = {"aliases",  "ethers", "gshadow",   "netgroup",
						"networks", "passwd", "protocols", "rpc",
						"services", "shadow"};

	for (size_t i = 0; i < sizeof databases / sizeof *databases; i++)
		if (__nss_configure_lookup(databases[i], "sennit") < 0)
			return 2;
	return sn_run(first, NULL);
}
