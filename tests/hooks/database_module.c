/* SPDX-License-Identifier: MIT */
/*
 * A module of the name service (nsswitch.conf(5)) that makes a hooked call, as modules that ask a
 * server do. It knows one user: whoever is asked for by name.
 */
#include <errno.h>
#include <nss.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

/* The C library looks it up by this name. */
__attribute__((visibility("default"))) enum nss_status
_nss_sennit_getpwnam_r(const char *name, struct passwd *user, char *buf, size_t size, int *error);

enum nss_status _nss_sennit_getpwnam_r(const char *name, struct passwd *user, char *buf,
				       size_t size, int *error)
{
	const size_t length = strlen(name) + 1;

	usleep(1000);
	if (size < length) {
		*error = ERANGE;
		return NSS_STATUS_TRYAGAIN;
	}
	memcpy(buf, name, length);
	*user = (struct passwd){.pw_name = buf,
				.pw_passwd = buf,
				.pw_gecos = buf,
				.pw_dir = buf,
				.pw_shell = buf,
				.pw_uid = 4711,
				.pw_gid = 4711};
	return NSS_STATUS_SUCCESS;
}

/* What it does not know. These look at no argument, so they need no parameters. */
#define KNOWS_NONE(name)                                                                 \
	__attribute__((visibility("default"))) enum nss_status _nss_sennit_##name(void); \
	enum nss_status _nss_sennit_##name(void)                                         \
	{                                                                                \
		usleep(1000);                                                            \
		return NSS_STATUS_NOTFOUND;                                              \
	}

/* clang-format off */
KNOWS_NONE(getaliasbyname_r)
KNOWS_NONE(gethostton_r)
KNOWS_NONE(getnetbyname_r)
KNOWS_NONE(getprotobyname_r)
KNOWS_NONE(getprotobynumber_r)
KNOWS_NONE(getpwent_r)
KNOWS_NONE(getpwuid_r)
KNOWS_NONE(getrpcbyname_r)
KNOWS_NONE(getsgnam_r)
KNOWS_NONE(getspnam_r)
KNOWS_NONE(setnetgrent)
KNOWS_NONE(setservent)
/* clang-format on */
