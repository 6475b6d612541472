import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import weather from './index.ts'

/** A fake Open-Meteo, which speaks the real wire format over real HTTP. */
class FakeOpenMeteo {
  readonly asked: URL[] = []
  answer: (url: URL) => { status?: number; body: unknown; delayMs?: number } = (url) => ({
    body: url.pathname.endsWith('/search') ? search(url) : forecast(url),
  })
  #server!: Server

  async start() {
    this.#server = createServer((request, response) => {
      const url = new URL(request.url!, 'http://fake')
      this.asked.push(url)
      const { status = 200, body, delayMs = 0 } = this.answer(url)
      setTimeout(() => {
        response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' })
        response.end(typeof body === 'string' ? body : JSON.stringify(body))
      }, delayMs)
    })
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    const { port } = this.#server.address() as AddressInfo
    return {
      WEATHER_API_URL: `http://127.0.0.1:${port}/v1/forecast`,
      WEATHER_GEOCODING_URL: `http://127.0.0.1:${port}/v1/search`,
    }
  }

  async stop() {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

function search(url: URL) {
  const places: Record<string, object> = {
    lusaka: {
      id: 909137,
      name: 'Lusaka',
      latitude: -15.40669,
      longitude: 28.28713,
      elevation: 1277,
      country_code: 'ZM',
      timezone: 'Africa/Lusaka',
      country: 'Zambia',
    },
    'são tomé': {
      id: 2410763,
      name: 'São Tomé',
      latitude: 0.33654,
      longitude: 6.72732,
      country: 'São Tomé and Príncipe',
    },
  }
  const found = places[url.searchParams.get('name')!.toLowerCase()]
  return found ? { results: [found], generationtime_ms: 0.6 } : { generationtime_ms: 0.4 }
}

function forecast(url: URL) {
  const place = {
    latitude: -15.375,
    longitude: 28.25,
    generationtime_ms: 0.05,
    utc_offset_seconds: 0,
    timezone: 'GMT',
    elevation: 1277,
  }
  if (url.searchParams.has('daily'))
    return {
      ...place,
      daily: {
        time: ['2026-11-21', '2026-11-22', '2026-11-23'],
        weather_code: [61, 95, 3],
        temperature_2m_max: [27.1, 25.4, null],
        temperature_2m_min: [17.2, 16.9, null],
        precipitation_sum: [3.4, 21, null],
      },
    }
  return {
    ...place,
    current_units: {
      time: 'iso8601',
      interval: 'seconds',
      temperature_2m: '°C',
      weather_code: 'wmo code',
    },
    current: { time: '2026-11-21T04:00', interval: 900, temperature_2m: 24.5, weather_code: 1 },
  }
}

describe('the weather plugin', () => {
  const open: { close(): unknown }[] = []
  afterEach(async () => {
    for (const thing of open.splice(0).reverse()) await thing.close()
  })
  async function start(
    env: Record<string, string> = {},
  ): Promise<{ app: TestApp; upstream: FakeOpenMeteo }> {
    const upstream = new FakeOpenMeteo()
    const addresses = await upstream.start()
    const app = await testApp({ plugins: [weather], fetch, env: { ...addresses, ...env } })
    open.push({ close: () => upstream.stop() }, app)
    return { app, upstream }
  }

  it('answers the weather of a city without credentials', async () => {
    const { app } = await start()
    const { status, body } = await app.get('/weather/now?city=Lusaka')
    expect(status).toBe(200)
    expect(body).toEqual({
      ok: true,
      city: 'Lusaka',
      country: 'Zambia',
      temp_c: 24.5,
      temperature: 24.5,
      units: 'celsius',
      conditions: 'mainly clear',
      latitude: -15.40669,
      longitude: 28.28713,
      observed_at: '2026-11-21T04:00',
    })
  })

  it('keeps temp_c in Celsius whatever the units are', async () => {
    const { app } = await start({ WEATHER_DEFAULT_UNITS: 'fahrenheit' })
    expect((await app.get('/weather/now?city=Lusaka')).body).toMatchObject({
      temp_c: 24.5,
      temperature: 76.1,
      units: 'fahrenheit',
    })
    expect((await app.get('/weather/now?city=Lusaka&units=celsius')).body).toMatchObject({
      temp_c: 24.5,
      temperature: 24.5,
      units: 'celsius',
    })
  })

  it('finds names in any spelling that means the same', async () => {
    const { app, upstream } = await start()
    for (const city of ['S%C3%A3o%20Tom%C3%A9', 'Sa%CC%83o%20Tome%CC%81', 's%C3%A3o+tom%C3%A9'])
      expect((await app.get(`/weather/now?city=${city}`)).body.city).toBe('São Tomé')
    expect(upstream.asked).toHaveLength(2)
  })

  it('asks the service once for many readers of one place, and remembers', async () => {
    const { app, upstream } = await start()
    upstream.answer = (url) => ({
      body: url.pathname.endsWith('/search') ? search(url) : forecast(url),
      delayMs: 30,
    })
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => app.get('/weather/now?city=lusaka')),
    )
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    await app.get('/weather/now?city=LUSAKA')
    expect(upstream.asked.map((url) => url.pathname)).toEqual(['/v1/search', '/v1/forecast'])
  })

  it('says 400 without a city and names the field', async () => {
    const { app } = await start()
    for (const query of ['', '?city=', '?city=%20', `?city=${'x'.repeat(101)}`, '?city=a&city=b']) {
      const { status, body } = await app.get(`/weather/now${query}`)
      expect(status).toBe(400)
      expect(body).toMatchObject({
        statusCode: 400,
        code: 'INVALID_INPUT',
        message: expect.stringContaining('city'),
      })
    }
  })

  it('says 404 for a place that cannot be found', async () => {
    const { app } = await start()
    const { status, body } = await app.get('/weather/now?city=Atlantis')
    expect(status).toBe(404)
    expect(body).toMatchObject({
      code: 'NOT_FOUND',
      message: 'No place called "Atlantis" was found.',
    })
  })

  it('says 502 when the service is broken, in each way it can be, and recovers', async () => {
    const { app, upstream } = await start()
    const working = upstream.answer
    const ways = [
      () => ({ status: 500, body: { error: true, reason: 'internal secret' } }),
      () => ({ status: 429, body: 'slow down' }),
      () => ({ body: '<html>a captive portal</html>' }),
      () => ({ body: { results: [{ name: 'Lusaka', latitude: 'north' }] } }),
      () => ({ body: `"${'x'.repeat(400_000)}"` }),
    ]
    for (const way of ways) {
      upstream.answer = way
      const { status, body } = await app.get('/weather/now?city=Lusaka')
      expect(status).toBe(502)
      expect(body.code).toBe('UPSTREAM_FAILED')
      expect(JSON.stringify(body)).not.toContain('secret')
    }
    upstream.answer = working
    expect((await app.get('/weather/now?city=Lusaka')).status).toBe(200)
  })

  it('says 502 when nobody listens there', async () => {
    const { app, upstream } = await start()
    await upstream.stop()
    expect((await app.get('/weather/now?city=Lusaka')).status).toBe(502)
    await upstream.start()
  })

  it('says 504 when the service is slow', async () => {
    const { app, upstream } = await start({ WEATHER_TIMEOUT_MS: '50' })
    upstream.answer = (url) => ({ body: search(url), delayMs: 500 })
    const { status, body } = await app.get('/weather/now?city=Lusaka')
    expect(status).toBe(504)
    expect(body).toMatchObject({
      code: 'UPSTREAM_TIMEOUT',
      message: expect.stringContaining('50 ms'),
    })
  })

  it('takes no time that a timer does not hold', async () => {
    await expect(start({ WEATHER_TIMEOUT_MS: '5000000000' })).rejects.toThrow('WEATHER_TIMEOUT_MS')
  })

  it('gives the agent both tools once loaded, and shows a card', async () => {
    const { app } = await start()
    const thread = app.thread()
    await expect(thread.call('get_current_weather', { city: 'Lusaka' })).rejects.toThrow(
      'which is not loaded',
    )
    thread.load('weather')
    expect(thread.tools).toEqual(
      expect.arrayContaining(['get_current_weather', 'get_weather_forecast']),
    )
    const reading = await thread.call('get_current_weather', { city: 'Lusaka' })
    expect(reading).toMatchObject({ city: 'Lusaka', temp_c: 24.5 })
    expect(thread.state('weather')).toEqual({ lastCity: 'Lusaka' })
    expect(thread.emitted).toEqual([{ event: 'component', args: ['WeatherCard', reading] }])
  })

  it('forecasts the next days and leaves out those without numbers', async () => {
    const { app } = await start()
    const forecast = await app
      .thread()
      .load('weather')
      .call('get_weather_forecast', { city: 'Lusaka', days: 7 })
    expect(forecast).toEqual({
      city: 'Lusaka',
      country: 'Zambia',
      days: [
        { date: '2026-11-21', max_c: 27.1, min_c: 17.2, rain_mm: 3.4, conditions: 'slight rain' },
        { date: '2026-11-22', max_c: 25.4, min_c: 16.9, rain_mm: 21, conditions: 'thunderstorm' },
      ],
    })
    await expect(
      app.thread().load('weather').call('get_weather_forecast', { city: 'Lusaka', days: 8 }),
    ).rejects.toThrow('days')
  })

  it('tells the model in a sentence when the service cannot be reached', async () => {
    const { app, upstream } = await start()
    upstream.answer = () => ({ status: 503, body: '' })
    await expect(
      app.thread().load('weather').call('get_current_weather', { city: 'Lusaka' }),
    ).rejects.toThrow('The weather service cannot be reached')
  })
})
