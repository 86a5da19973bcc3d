/* SPDX-License-Identifier: MIT */
/*
 * What must hold for the reader of the admin server's requests and for the actions of the control
 * server, whatever a client sends; like properties.hpp.
 */
#ifndef FUZZ_RELAY_CONTROL_PROPERTIES_HPP
#define FUZZ_RELAY_CONTROL_PROPERTIES_HPP

#include "admin/control.hpp"
#include "config/config.hpp"
#include "properties.hpp"
#include "wire/http.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace properties
{

/* A controller that notes that it was called, and checks that the request is complete. */
class asked final : public relay::controller
{
public:
	outcome configuration() override { return note(); }
	outcome reload(const relay::requester &) override { return note(); }

	outcome edit(const relay::backend_edit &what, const relay::requester &) override
	{
		using kind = relay::backend_edit::kind;
		require(!what.group.empty() && !what.backend.empty(), "a change names a backend");
		require(what.what != kind::set_weight || what.weight, "a weight is given");
		require(!what.weight || *what.weight <= relay::weight_max, "a weight is in range");
		require(!what.priority || *what.priority <= relay::priority_max,
			"a priority is in range");
		changes = true;
		return note();
	}

	outcome kill(const relay::session_filter &) override
	{
		changes = true;
		return note();
	}

	bool called = false;
	bool changes = false;

private:
	outcome note()
	{
		called = true;
		return {.text = "done\n"};
	}
};

class patient final : public relay::requester
{
public:
	bool has_left() const noexcept override { return false; }
};

/* One backend, with a name that has to be aligned. */
class one_backend final : public relay::snapshot_source
{
public:
	relay::snapshot read() const override
	{
		relay::snapshot now;
		relay::backend_snapshot each;
		each.route = "web";
		each.address = "127.0.0.1:80";
		now.backends.push_back(std::move(each));
		return now;
	}
	bool is_ready() const noexcept override { return true; }
};

/* The requests that a reader finds in the bytes when they come in pieces of that size, and the
 * error that ends them. */
struct found {
	std::vector<relay::http_request> requests;
	int error = 0;
};

inline found read_requests(std::string_view bytes, std::size_t piece)
{
	found all;
	relay::http_reader reader;
	while (!bytes.empty()) {
		/* Each piece is in memory of its own, so that the address sanitizer notices a
		 * byte that is read beyond it. */
		const auto size = std::min(piece, bytes.size());
		const std::unique_ptr<char[]> copy(new char[size]);
		bytes.copy(copy.get(), size);
		const auto took = reader.feed({copy.get(), size});
		require(took <= size, "only bytes that were given are taken");
		bytes.remove_prefix(took);
		if (reader.http_error() != 0) {
			all.error = reader.http_error();
			require(!relay::http_reason(all.error).empty(), "a mistake has an answer");
			require(reader.feed("GET / HTTP/1.1\r\n\r\n") == 0,
				"nothing is read after a mistake");
			return all;
		}
		if (!reader.complete()) {
			require(took == size, "all is taken until a request is complete");
			continue;
		}
		require(took > 0, "a request has bytes");
		all.requests.push_back(reader.request());
		if (!reader.request().keep_alive)
			return all; /* the connection ends after this request's answer */
		reader.next();
	}
	return all;
}

inline bool are_equal(const relay::http_request &a, const relay::http_request &b)
{
	return a.method == b.method && a.path == b.path && a.query == b.query && a.host == b.host &&
	       a.authorization == b.authorization && a.keep_alive == b.keep_alive;
}

inline void control(std::string_view bytes)
{
	const auto once = read_requests(bytes, bytes.size());
	for (const std::size_t piece : {std::size_t{1}, std::size_t{7}}) {
		const auto again = read_requests(bytes, piece);
		require(again.error == once.error, "pieces change no mistake");
		require(std::ranges::equal(again.requests, once.requests, are_equal),
			"pieces change no request");
	}
	const one_backend source;
	for (const auto &each : once.requests) {
		require(!each.method.empty(), "a request has a method");
		require(each.path.size() + each.query.size() <= relay::http_reader::url_most,
			"no path is longer than allowed");
		asked to;
		const auto answer = relay::answer_control(to, source, each, patient());
		require(!to.changes || each.method == "POST", "only POST changes something");
		if (!answer)
			continue;
		require(!relay::http_reason(answer->status).empty(),
			"an answer has a known status");
		require(answer->text.ends_with('\n'), "an answer has whole lines");
		require(!to.called || answer->status == 200, "what is not understood is not done");
		const auto text = relay::to_http({.status = answer->status, .body = answer->text});
		require(text.find("\r\n\r\n") + 4 + answer->text.size() == text.size(),
			"nothing of a request gets into the head of an answer");
	}
}

} // namespace properties

#endif
