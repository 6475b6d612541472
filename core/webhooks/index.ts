export { deliver, type Delivered, type DeliverOptions } from './deliver.ts'
export type { Secret } from './secret.ts'
export { verifyHmac, type HmacCheck } from './verify-hmac.ts'
export { verifyWebhook, type WebhookCheck } from './verify-webhook.ts'
