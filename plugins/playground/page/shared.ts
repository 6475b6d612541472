import * as react from 'react'
import * as jsxRuntime from 'react/jsx-runtime'
import * as reactDom from 'react-dom/client'
import * as client from 'oracle-runtime-client'
import * as liveAgent from 'oracle-runtime-client/live-agent'
import * as memory from 'oracle-runtime-client/memory'
import * as notices from 'oracle-runtime-client/notices'
import * as payments from 'oracle-runtime-client/payments'
import * as view from 'oracle-runtime-client/view'

/** Puts what the page has where the views of plugins look for it, so that none of them brings React along. */
Object.assign(globalThis, {
  [Symbol.for('oracle-runtime.page')]: {
    react,
    'react/jsx-runtime': jsxRuntime,
    'react-dom/client': reactDom,
    'oracle-runtime-client': client,
    'oracle-runtime-client/live-agent': liveAgent,
    'oracle-runtime-client/memory': memory,
    'oracle-runtime-client/payments': payments,
    'oracle-runtime-client/notices': notices,
    'oracle-runtime-client/view': view,
  },
})
