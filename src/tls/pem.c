/* SPDX-License-Identifier: MIT */
#include "tls/pem.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "tls/tls.h"

bool sn_tls_pem_is_text(const char *where)
{
	return strstr(where, "-----BEGIN") != NULL;
}

static int open_file(BIO **bio, const char *path)
{
	char buf[TLS_TEXT];
	int err;

	errno = 0;
	*bio = BIO_new_file(path, "re");
	if (*bio)
		return 0;
	err = errno ? errno : ENOMEM;
	ERR_clear_error();
	return sn_tls_say(-err, "%.100s: %s", path, strerror_r(err, buf, sizeof buf));
}

int sn_tls_pem_open(BIO **bio, const char *where)
{
	if (!sn_tls_pem_is_text(where))
		return open_file(bio, where);
	*bio = strlen(where) < INT_MAX ? BIO_new_mem_buf(where, -1) : NULL;
	return *bio ? 0 : sn_tls_say(-ENOMEM, "no memory");
}

bool sn_tls_pem_at_end(void)
{
	unsigned long code = ERR_peek_last_error();

	if (ERR_GET_LIB(code) != ERR_LIB_PEM || ERR_GET_REASON(code) != PEM_R_NO_START_LINE)
		return false;
	ERR_clear_error();
	return true;
}
