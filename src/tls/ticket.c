/* SPDX-License-Identifier: MIT */
/*
 * Keys for a server's tickets. If the program sets them, several servers can share them, and it can
 * replace them. Otherwise OpenSSL makes a key for each configuration.
 *
 * A ring of keys never changes. As with certificates, a connection takes a reference of the present
 * ring when it is made, so the callback needs no lock. Keys are erased before their memory is
 * freed.
 *
 * Tickets have the form of RFC 5077, section 4: AES-256-CBC, then HMAC-SHA256, which OpenSSL
 * applies in this order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/rand.h>

#include "tls/tls.h"

#define NAME_SIZE 16
#define HALF 32 /* for the cipher, and as much for the message authentication code */
#define MOST_KEYS 64

_Static_assert(NAME_SIZE + 2 * HALF == SN_TLS_TICKET_KEY, "a key has three parts");

void sn_tls_ring_release(struct sn_tls_ring *ring)
{
	/* Acquire as well as release: the last one must see what the others did with the ring. */
	if (!ring || atomic_fetch_sub_explicit(&ring->references, 1, memory_order_acq_rel) != 1)
		return;
	OPENSSL_cleanse(ring->keys, ring->n * sizeof *ring->keys);
	free(ring);
}

/* ---- the callback ---- */

/* The key with a name, or NULL. Names are not secret: they are in each ticket. */
static const unsigned char *find(const struct sn_tls_ring *ring, const unsigned char *name)
{
	for (size_t i = 0; i < ring->n; i++)
		if (memcmp(ring->keys[i], name, NAME_SIZE) == 0)
			return ring->keys[i];
	return NULL;
}

static bool begin(const unsigned char *key, const unsigned char *iv, EVP_CIPHER_CTX *cipher,
		  EVP_MAC_CTX *mac, int makes)
{
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY,
						  (void *)(key + NAME_SIZE + HALF), HALF),
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
		OSSL_PARAM_construct_end(),
	};

	return EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key + NAME_SIZE, iv, makes) ==
		       1 &&
	       EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* OpenSSL's callback. Returns 1 to continue, 2 to continue and give the client a new ticket, 0 to
 * make a full handshake, or -1 to make the handshake fail. */
static int use_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
		   EVP_MAC_CTX *mac, int makes)
{
	const struct sn_tls_ring *ring = sn_tls_of(ssl)->ring;
	const unsigned char *key;

	key = makes ? ring->keys[0] : find(ring, name);
	if (!key)
		return 0;
	if (makes) {
		memcpy(name, key, NAME_SIZE);
		if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1)
			return -1;
	}
	if (!begin(key, iv, cipher, mac, makes))
		return -1;
	/* In TLS 1.3 a client uses each ticket only once, so it needs a new one. */
	return makes || (key == ring->keys[0] && SSL_version(ssl) < TLS1_3_VERSION) ? 1 : 2;
}

/* ---- setting them ---- */

int sn_tls_config_set_ticket_keys(sn_tls_config *config, const void *keys, size_t n)
{
	struct sn_tls_ring *ring, *former;
	bool late;

	if (!config || config->role != SN_TLS_SERVER || !keys || n == 0 || n > MOST_KEYS)
		return sn_tls_say(-EINVAL, "not a server's configuration, or no keys");
	ring = malloc(sizeof *ring + n * sizeof *ring->keys);
	if (!ring)
		return sn_tls_say(-ENOMEM, "no memory");
	atomic_init(&ring->references, 1);
	ring->n = n;
	memcpy(ring->keys, keys, n * sizeof *ring->keys);
	sn_mutex_lock_uncancelled(&config->lock);
	former = config->ring;
	/* OpenSSL reads the callback while there are connections, so it cannot be set any more. */
	late = config->used && !former;
	if (!late)
		config->ring = ring;
	if (!late && !former)
		SSL_CTX_set_tlsext_ticket_key_evp_cb(config->ctx, use_key);
	sn_mutex_unlock(&config->lock);
	sn_tls_ring_release(late ? ring : former);
	return late ? sn_tls_say(-EBUSY,
				 "the configuration is in use, with OpenSSL's own ticket keys")
		    : 0;
}
