/* SPDX-License-Identifier: MIT */
/*
 * PEM, from a file or from the text itself. A file is read by the calling thread, which that may
 * block.
 */
#ifndef SENNIT_TLS_PEM_H
#define SENNIT_TLS_PEM_H

#include <stdbool.h>

#include <openssl/bio.h>

/* Whether it is text, and not the path of a file. */
bool sn_tls_pem_is_text(const char *where);

/* Opens it: 0, or an error, which has been said. */
int sn_tls_pem_open(BIO **bio, const char *where);

/* Whether the last read of PEM failed because there was no more; then the error is forgotten. */
bool sn_tls_pem_at_end(void);

#endif
