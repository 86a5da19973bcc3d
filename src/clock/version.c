/* SPDX-License-Identifier: MIT */
/*
 * The version of the library that is linked, which need not be that of the headers.
 */
#include <sennit/base.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *sn_version(void)
{
	return TEXT(SN_VERSION_MAJOR) "." TEXT(SN_VERSION_MINOR) "." TEXT(SN_VERSION_PATCH);
}
