/* SPDX-License-Identifier: MIT */
#include "wire/opening.hpp"

#include <string_view>

namespace relay
{
namespace
{

/* Reads until the parser has a result. The parser returns how many bytes it needs at least, and
 * each round reads up to that many. */
template <class Read>
std::optional<opening_fault> receive(sn::tcp &from, sn::deadline until, termination bad,
				     std::string &bytes, Read read)
{
	from.set_read_deadline(until);
	for (;;) {
		const parsed found = read(std::string_view(bytes));
		if (found.is == parsed::state::done) {
			from.set_read_deadline(sn::no_deadline);
			return std::nullopt;
		}
		if (found.is == parsed::state::bad)
			return opening_fault{bad, found.why};

		const std::size_t have = bytes.size();
		bytes.resize(found.size);
		const auto n = from.read(bytes.data() + have, found.size - have);
		bytes.resize(have + (n ? *n : 0));
		/* The kernel reports the same error when it gives up on the client. */
		if (!n && n.error() == std::errc::timed_out && until != sn::no_deadline &&
		    sn::now() >= until)
			return opening_fault{termination::hello_timeout,
					     "after " + std::to_string(have) + " bytes"};
		if (!n)
			return opening_fault{termination::client_left, n.error().message()};
		if (*n == 0 && have == 0)
			return opening_fault{termination::client_left, "no byte arrived"};
		if (*n == 0)
			return opening_fault{bad,
					     "cut off after " + std::to_string(have) + " bytes"};
	}
}

} // namespace

std::optional<opening_fault> receive_proxy_header(sn::tcp &from, sn::deadline until,
						  proxy_header &into)
{
	std::string bytes;
	auto fault =
		receive(from, until, termination::bad_proxy_header, bytes,
			[&into](std::string_view got) { return read_proxy_header(got, into); });
	if (!fault && into.datagram)
		return opening_fault{termination::bad_proxy_header, "it describes datagrams"};
	return fault;
}

std::optional<opening_fault> receive_tls_hello(sn::tcp &from, sn::deadline until, tls_hello &into,
					       std::string &bytes)
{
	tls_hello_reader reader;
	return receive(from, until, termination::bad_tls_hello, bytes,
		       [&](std::string_view got) { return reader.read(got, into); });
}

} // namespace relay
