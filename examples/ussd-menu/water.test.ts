import { expect, it } from 'vitest'
import ussd from 'oracle-runtime/plugins/ussd'
import { testApp } from 'oracle-runtime/testing'
import water from './water.ts'

it('a fault of a well is reported from any phone', async () => {
  await using app = await testApp({ plugins: [ussd, water] })
  const call = { sessionId: 'one', serviceCode: '*384#', phoneNumber: '+254711000111' }
  const answers: string[] = []
  for (const text of ['', '4', '4*1', '4*1*The well by the school'])
    answers.push((await app.post('/api/ussd', { ...call, text })).body)
  expect(answers[0]).toContain('4. Water\n')
  expect(answers.slice(1)).toEqual([
    'CON Water points\n1. Report a fault\n0. Back',
    'CON Which well?\n0. Back',
    'CON Thank you. The well by the school is noted.\n0. Back',
  ])
})
