// Package scrape reads endpoints' metrics pages over HTTP, each at its own pace, and
// asks them now and then which models they serve.
//
// It promises:
//
//   - At most one scrape of an endpoint is in flight. An endpoint whose page is slow is
//     scraped less often, so that it spends no more than a fifth of its time on it.
//   - A failure leaves the figures as they are: they age. So does a page that has none
//     of the families that are looked for. Failures are counted by reason and logged
//     when an endpoint begins to fail and when it is well again, not in between.
//   - An endpoint that is no longer assigned is left alone at once: its scrape is cut
//     off and its connections are closed.
//   - Redirects are not followed, proxies of the environment are not used, and tokens
//     go to the endpoint they are for only.
//
// It does not decide what is scraped, and keeps no figures.
package scrape
