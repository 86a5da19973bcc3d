/* SPDX-License-Identifier: MIT */
/*
 * TLS on streams, for C++: the objects of tls.h with results and destructors. sennit.hpp does not
 * include it; link libsennit-tls.
 *
 *	sn::tls_config config(SN_TLS_CLIENT);
 *	sn::result<sn::stream> conn = sn::tls_connect("example.org:443", config);
 *
 *	if (!conn)
 *		std::puts(sn::tls_last_error().c_str());
 *
 * Errors of TLS itself compare with sn::tls_errc, and have texts of their own. tls_last_error() and
 * tls_error() say more, such as what is wrong with the peer's certificate.
 *
 * A string with a zero inside is refused with EINVAL, and sn_tls_last_error() does not know of it.
 *
 * Threads outside the runtime and signal handlers: what tls.h says of the calls underneath.
 */
#ifndef SENNIT_TLS_HPP
#define SENNIT_TLS_HPP

#include <sennit/stream.hpp>
#include <sennit/tls.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace sennit
{

/*
 * What can fail in TLS itself, as a std::error_condition: `r.error() == sn::tls_errc::refused`. An
 * error compares with these wherever it comes from: the calls below, or a read of a stream with
 * TLS.
 */
enum class tls_errc : int {
	refused = EKEYREJECTED, /* the peer's certificate is refused here */
	protocol = EPROTO,      /* other failures in TLS, also those that the peer reports */
	cut_off = ECONNABORTED, /* the peer has ended the connection without the end of TLS */
	no_stack = ENOBUFS,     /* too little of the task's stack is left for a handshake */
	not_tls = EPROTOTYPE,   /* the stream has no TLS */
	malformed = EBADMSG,    /* of a certificate, a key, a list or a response */
	expired = ESTALE,       /* of a response that a server is given */
};

namespace detail
{

/* Errors of TLS have the numbers of errno, but texts of their own. They are equivalent to std::errc
 * where that has the number, and to tls_errc. */
class tls_error_category final : public std::error_category
{
public:
	const char *name() const noexcept override { return "sennit-tls"; }
	std::string message(int number) const override
	{
		const char *text = text_of_own(number);
		return text ? text : std::generic_category().message(number);
	}
	std::error_condition default_error_condition(int number) const noexcept override
	{
		return {number, std::generic_category()};
	}
	bool equivalent(const std::error_code &code, int condition) const noexcept override
	{
		return code.value() == condition &&
		       (code.category() == *this || code.category() == std::generic_category());
	}

	/* nullptr for a number that is not of tls_errc. */
	static const char *text_of_own(int number) noexcept
	{
		switch (static_cast<tls_errc>(number)) {
		case tls_errc::refused:
			return "the peer's certificate is refused";
		case tls_errc::protocol:
			return "TLS has failed";
		case tls_errc::cut_off:
			return "the connection was cut off without the end of TLS";
		case tls_errc::no_stack:
			return "too little stack is left for a handshake";
		case tls_errc::not_tls:
			return "the stream has no TLS";
		case tls_errc::malformed:
			return "malformed certificate, key, list or response";
		case tls_errc::expired:
			return "the response has expired";
		}
		return nullptr;
	}
};

} // namespace detail

/* The category of tls_errc, and of the errors of TLS that the calls below return. Others, such as
 * those of the socket, are of std::generic_category(). */
inline const std::error_category &tls_category() noexcept
{
	static const detail::tls_error_category category;
	return category;
}

/* Makes a tls_errc comparable with std::error_code. */
inline std::error_condition make_error_condition(tls_errc condition) noexcept
{
	return {static_cast<int>(condition), tls_category()};
}

namespace detail
{

/* What a call of tls.h has returned: an error, in its category. */
inline std::error_code tls_code(long returned) noexcept
{
	const std::error_code plain = from_errno(returned);
	return tls_error_category::text_of_own(plain.value())
		       ? std::error_code(plain.value(), tls_category())
		       : plain;
}

inline result<void> tls_done(int returned)
{
	return returned < 0 ? result<void>(unexpected(tls_code(returned))) : result<void>();
}

} // namespace detail

/* Why the last call here has failed, in this task or thread: sn_tls_last_error(). */
inline std::string tls_last_error()
{
	return sn_tls_last_error();
}

/* How connections are made: sn_tls_config. Copies refer to the same configuration. */
class tls_config
{
public:
	/* Throws std::system_error. */
	explicit tls_config(sn_tls_role role)
	{
		detail::throw_if_error(sn_tls_config_new(&config_, role), "sn_tls_config_new");
	}
	tls_config(const tls_config &other) noexcept : config_(sn_tls_config_ref(other.config_)) {}
	tls_config(tls_config &&other) noexcept : config_(std::exchange(other.config_, nullptr)) {}
	tls_config &operator=(tls_config other) noexcept
	{
		std::swap(config_, other.config_);
		return *this;
	}
	~tls_config() { sn_tls_config_unref(config_); }

	/* tls.h says what each call does. */
	result<void> verify(sn_tls_verify how)
	{
		return detail::tls_done(sn_tls_config_set_verify(config_, how));
	}
	result<void> add_ca(const std::string &where)
	{
		if (!detail::lacks_zeros(where))
			return unexpected(detail::zero_inside);
		return detail::tls_done(sn_tls_config_add_ca(config_, where.c_str()));
	}
	result<void> add_system_ca()
	{
		return detail::tls_done(sn_tls_config_add_system_ca(config_));
	}
	result<void> add_crl(const std::string &where)
	{
		if (!detail::lacks_zeros(where))
			return unexpected(detail::zero_inside);
		return detail::tls_done(sn_tls_config_add_crl(config_, where.c_str()));
	}
	result<void> certificates(std::span<const sn_tls_certificate> list)
	{
		return detail::tls_done(
			sn_tls_config_set_certificates(config_, list.data(), list.size()));
	}
	result<void> certificate(const std::string &chain, const std::string &key)
	{
		if (!detail::lacks_zeros(chain, key))
			return unexpected(detail::zero_inside);
		const sn_tls_certificate one = {chain.c_str(), key.c_str()};
		return certificates({&one, 1});
	}
	result<void> ocsp_response(std::span<const std::byte> der)
	{
		return detail::tls_done(
			sn_tls_config_set_ocsp_response(config_, der.data(), der.size()));
	}
	result<void> stapling(sn_tls_stapling how)
	{
		return detail::tls_done(sn_tls_config_set_stapling(config_, how));
	}
	result<void> alpn(const std::string &protocols)
	{
		if (!detail::lacks_zeros(protocols))
			return unexpected(detail::zero_inside);
		return detail::tls_done(sn_tls_config_set_alpn(config_, protocols.c_str()));
	}
	result<void> versions(sn_tls_version lowest, sn_tls_version highest = SN_TLS_DEFAULT)
	{
		return detail::tls_done(sn_tls_config_set_versions(config_, lowest, highest));
	}
	result<void> resumption(bool on)
	{
		return detail::tls_done(sn_tls_config_set_resumption(config_, on));
	}
	result<void> ticket_keys(std::span<const std::array<unsigned char, SN_TLS_TICKET_KEY>> keys)
	{
		return detail::tls_done(
			sn_tls_config_set_ticket_keys(config_, keys.data(), keys.size()));
	}
	result<void> key_log(const char *path = nullptr)
	{
		return detail::tls_done(sn_tls_config_set_key_log(config_, path));
	}

	sn_tls_config *get() const noexcept { return config_; }

private:
	sn_tls_config *config_ = nullptr;
};

/* Connects and makes the handshake: sn_tls_connect(). May park. */
inline result<stream> tls_connect(const std::string &address, const tls_config &config,
				  time_limit until = no_deadline)
{
	if (!detail::lacks_zeros(address))
		return unexpected(detail::zero_inside);
	sn_stream *made = nullptr;
	const int err = sn_tls_connect(&made, address.c_str(), config.get(), detail::to_ns(until));
	if (err < 0)
		return unexpected(detail::tls_code(err));
	return stream(made);
}

/* Begins TLS on a connected stream, as the client: sn_tls_client(). The stream stays the same
 * object. */
template <byte_stream Stream>
result<void> tls_client(Stream &on, const tls_config &config, const std::string &name)
{
	if (!detail::lacks_zeros(name))
		return unexpected(detail::zero_inside);
	return detail::tls_done(sn_tls_client(on.as_stream(), config.get(), name.c_str()));
}

/* The same as the server: sn_tls_server(). */
template <byte_stream Stream>
result<void> tls_server(Stream &on, const tls_config &config)
{
	return detail::tls_done(sn_tls_server(on.as_stream(), config.get()));
}

/* Makes the handshake: sn_tls_handshake(). May park. */
template <byte_stream Stream>
result<void> tls_handshake(Stream &on, time_limit until = no_deadline)
{
	return detail::tls_done(sn_tls_handshake(on.as_stream(), detail::to_ns(until)));
}

/* Why TLS has failed on this stream; "" when it has not, or has no TLS. */
template <byte_stream Stream>
std::string tls_error(const Stream &on)
{
	const char *text = sn_tls_error(on.as_stream());
	return text ? text : "";
}

/* The result of the handshake: struct sn_tls_info. May park for a moment. */
template <byte_stream Stream>
result<struct sn_tls_info> tls_info(const Stream &on)
{
	struct sn_tls_info info;
	const int err = sn_tls_info(on.as_stream(), &info);
	if (err < 0)
		return unexpected(detail::tls_code(err));
	return info;
}

/* The peer's certificate in DER. May park for a moment. */
template <byte_stream Stream>
result<std::vector<std::byte>> tls_peer_certificate(const Stream &on)
{
	const result<struct sn_tls_info> info = tls_info(on);
	if (!info)
		return unexpected(info.error());
	std::vector<std::byte> der(info->peer_size);
	const ssize_t n = sn_tls_peer_certificate(on.as_stream(), der.data(), der.size());
	if (n < 0)
		return unexpected(detail::tls_code(n));
	return der;
}

} // namespace sennit

template <>
struct std::is_error_condition_enum<sennit::tls_errc> : std::true_type {
};

#endif
