import { defineScreens } from '../../screens/menu.ts'

/** The screen that shows the demonstration's balance, or asks the caller to log in first. */
export const balanceScreen = defineScreens({
  balance: {
    title: 'balance',
    text: 'balanceText',
    values: ({ account, t }) => ({
      balance: account ? t('balanceOf', { id: account.customerId }) : t('logInFirst'),
    }),
    sample: { balance: 'x'.repeat(150) },
  },
})
