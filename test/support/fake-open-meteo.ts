import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A fake Open-Meteo at the network's edge, where it is 24.5 °C in Lusaka and nowhere else is known. */
export async function fakeOpenMeteo() {
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url!, 'http://fake')
    const isLusaka = /lusaka/i.test(searchParams.get('name') ?? '')
    const lusaka = { id: 1, name: 'Lusaka', latitude: -15.4, longitude: 28.3, country: 'Zambia' }
    const body = pathname.endsWith('/search')
      ? { results: isLusaka ? [lusaka] : undefined }
      : { current: { time: '2026-11-21T04:00', temperature_2m: 24.5, weather_code: 1 } }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    env: { WEATHER_API_URL: `${base}/v1/forecast`, WEATHER_GEOCODING_URL: `${base}/v1/search` },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
