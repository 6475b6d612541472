import type { IncomingHttpHeaders } from 'node:http'

/** What proxies, load balancers, tunnels and content networks add to a request that they pass on. */
const ofProxies = new Set([
  'forwarded',
  'via',
  'client-ip',
  'cdn-loop',
  'cf-connecting-ip',
  'cf-connecting-ipv6',
  'cf-pseudo-ipv4',
  'cf-ipcountry',
  'cf-ray',
  'cf-visitor',
  'do-connecting-ip',
  'fastly-client-ip',
  'fly-client-ip',
  'oxy-connecting-ip',
  'proxy-connection',
  'true-client-ip',
  'wl-proxy-client-ip',
  'proxy-client-ip',
  'x-amzn-trace-id',
  'x-appengine-user-ip',
  'x-arr-log-id',
  'x-arr-ssl',
  'x-azure-clientip',
  'x-azure-socketip',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-coming-from',
  'x-forwarded',
  'x-forwarder-for',
  'x-host',
  'x-http-host-override',
  'x-nf-client-connection-ip',
  'x-proxyuser-ip',
  'x-real-ip',
  'x-real-port',
  'x-remote-addr',
  'x-remote-ip',
  'x-rewrite-url',
  'x-source-ip',
  'x-true-client-ip',
  'x-true-ip',
  'x-vercel-ip-country',
  'x-scheme',
  'x-url-scheme',
  'front-end-https',
])
const ofProxyFamilies =
  /^x-(forwarded|original|envoy|vercel|tailscale|ngrok)-|^tailscale-|^cf-access-/

/** Whether anything about a request says that somebody passed it on. An empty header counts too. */
export function wasForwarded(headers: IncomingHttpHeaders): boolean {
  for (const name of Object.keys(headers))
    if (ofProxies.has(name) || ofProxyFamilies.test(name)) return true
  return false
}

/**
 * The header in which a proxy names the client, if one came. The headers are looked up by name, for this runs for every
 * request until one has such a header.
 */
export function namesClient(headers: IncomingHttpHeaders): string | undefined {
  for (const name of naming) if (headers[name] !== undefined) return name
  return undefined
}

const naming = ['x-forwarded-for', 'forwarded', 'x-real-ip', 'cf-connecting-ip', 'true-client-ip']
