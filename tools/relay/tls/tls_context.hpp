/* SPDX-License-Identifier: MIT */
/*
 * The TLS context of a listener or a group: its certificates, authorities and settings, as they
 * were last read, and the handshakes that use them.
 *
 * The files are read as a whole and checked before any of them is used: a certificate that cannot
 * be parsed, or a key of another certificate, is an error, and the previous content stays in use.
 * Files may change at any time. look() notices that, waits until they have stopped changing,
 * because a certificate and its key are two files that are not replaced at the same moment, and
 * reads them again. Existing connections keep the certificates that they began with.
 *
 * Without OpenSSL (tls_none.cc) there are no contexts, and the configuration has no key that needs
 * one.
 */
#ifndef RELAY_TLS_CONTEXT_HPP
#define RELAY_TLS_CONTEXT_HPP

#include "tls/tls_files.hpp"
#include "tls/tls_settings.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

namespace relay
{

class tls_tickets;

/* Whether this program can do TLS at all. */
extern const bool tls_is_built;

/* The stack of a task that makes handshakes. */
inline constexpr std::size_t tls_stack = std::size_t{256} << 10;

/* The result of the handshake with a peer. */
struct tls_facts {
	std::string version;     /* "TLSv1.3" */
	std::string cipher;      /* "TLS_AES_128_GCM_SHA256" */
	std::string server_name; /* the name asked for, in lower case; empty: none */
	std::string alpn;        /* the protocol that was agreed on; empty: none */
	bool resumed = false;
	/* Whether the peer has shown a valid certificate, now or when its session was made. */
	bool has_certificate = false;
	std::string common_name; /* of its subject; without control characters */
};

/* A certificate of the files, or what they say of the certificates that an issuer has revoked. */
struct tls_certificate_info {
	std::string file;
	std::string name; /* the first of its names; of a revocation list, the issuer's */
	/* Since 1970. A list is to be replaced before not_after, its next update. */
	std::chrono::seconds not_before{};
	std::chrono::seconds not_after{};
	bool is_list = false;
};

/* The listener or group to which a context belongs. */
struct tls_owner {
	bool is_listener = true; /* otherwise a group */
	std::string name;

	/* "listeners.web.tls", as errors name it. */
	std::string key() const { return (is_listener ? "listeners." : "groups.") + name + ".tls"; }
	bool operator==(const tls_owner &) const = default;
};

using tls_settings = std::variant<tls_server_settings, tls_client_settings>;

class tls_context
{
public:
	/* Makes a context from its files. Returns null on failure; why has the reason, with the
	 * key. tickets: the shared ticket keys of listeners, which must outlive the context;
	 * null: the context has keys of its own. files: those that were read before; others are
	 * read here. Blocks, with thousands of certificates for seconds, so do not call it in a
	 * task. */
	static std::shared_ptr<tls_context> open(tls_owner owner, tls_settings settings,
						 tls_tickets *tickets, tls_files files,
						 std::string &why);
	/* Why TLS has failed on that connection; empty if it has not failed, or there is no TLS. */
	static std::string reason(const sn::tcp &on);
	/* The certificate (DER) that the peer of that connection has shown; empty if none. */
	static std::string certificate_of(const sn::tcp &on);
	tls_context(const tls_context &) = delete;
	tls_context &operator=(const tls_context &) = delete;
	virtual ~tls_context() = default;

	const tls_owner &owner() const noexcept { return owner_; }
	const tls_settings &settings() const noexcept { return settings_; }

	enum class seen : unsigned char { same, reloaded, bad };

	/*
	 * Reads the files again if they have changed. Returns bad, once for each change, if they
	 * cannot be used; the old content then stays in use. Files that could not be read, or not
	 * be judged for lack of memory, are tried again at each call; then bad is returned once
	 * until they could be. One caller at a time. Blocks on the file system, so do not call it
	 * in a task.
	 */
	virtual seen look(std::string &why) = 0;

	/* The certificates in use now, in the order of the configuration, and then the revocation
	 * lists that have a next update: of each issuer the one that is good for longest. */
	virtual std::vector<tls_certificate_info> certificates() const = 0;

	/* Replaces the ticket keys, unless it has this generation of them, or uses none of them.
	 * New tickets are made with the first one. */
	virtual void renew_tickets(const tls_tickets &keys) = 0;

	/*
	 * Makes the handshake with a client, as its server. On success sets `into`, and the
	 * connection reads and writes plaintext from now on. Otherwise why has the reason. May
	 * park; needs tls_stack.
	 */
	virtual std::error_code accept(sn::tcp &client, sn::deadline until, tls_facts &into,
				       std::string &why) const = 0;

	/* The same with a backend, as its client. host: the name that the certificate must have,
	 * unless the settings name another. alpn: the protocol to offer if the settings have
	 * none; may be empty. */
	virtual std::error_code connect(sn::tcp &backend, const std::string &host,
					const std::string &alpn, sn::deadline until,
					std::string &why) const = 0;

protected:
	tls_context(tls_owner owner, tls_settings settings)
	    : owner_(std::move(owner)), settings_(std::move(settings))
	{
	}

private:
	const tls_owner owner_;
	const tls_settings settings_;
};

/* The host of "host:port" or "[host]:port", without brackets; empty for other addresses: a Unix
 * socket, a service. */
std::string tls_host_of(std::string_view address);

} // namespace relay

#endif
