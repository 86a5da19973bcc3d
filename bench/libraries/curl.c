/* SPDX-License-Identifier: MIT */
/* libcurl: WHERE is a URL. The asynchronous interface is curl_multi. */
#include <curl/curl.h>

#include "ways.h"

static size_t drop(char *bytes, size_t size, size_t n, void *to)
{
	(void)bytes;
	*(size_t *)to += size * n;
	return size * n;
}

static size_t received[MOST];

static CURL *handle_of(const struct ways *ways, int i)
{
	CURL *curl = curl_easy_init();

	curl_easy_setopt(curl, CURLOPT_URL, ways->where);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, &received[i]);
	return curl;
}

static void fetch(const struct ways *ways, int i)
{
	CURL *curl = handle_of(ways, i);

	CHECK(curl_easy_perform(curl) == CURLE_OK && received[i] == 5);
	curl_easy_cleanup(curl);
}

static void fetch_all(const struct ways *ways)
{
	CURLM *multi = curl_multi_init();
	static CURL *handles[MOST];
	int running, left;
	CURLMsg *message;

	for (int i = 0; i < ways->n; i++) {
		handles[i] = handle_of(ways, i);
		curl_multi_add_handle(multi, handles[i]);
	}
	do {
		CHECK(curl_multi_perform(multi, &running) == CURLM_OK);
		while ((message = curl_multi_info_read(multi, &left)))
			CHECK(message->data.result == CURLE_OK);
		if (running)
			curl_multi_poll(multi, NULL, 0, 1000, NULL);
	} while (running);
	for (int i = 0; i < ways->n; i++) {
		CHECK(received[i] == 5);
		curl_multi_remove_handle(multi, handles[i]);
		curl_easy_cleanup(handles[i]);
	}
	curl_multi_cleanup(multi);
}

int main(int argc, char **argv)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
	return ways_main(argc, argv, (struct ways){.job = fetch, .all = fetch_all});
}
